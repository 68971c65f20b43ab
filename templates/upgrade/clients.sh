# Daemons of this host that use the cards: stopped in order, remembered on disk, started again in the other order.
_clients=$_state/upgrade-clients

has_switch() {
    for _d in /sys/bus/pci/devices/*; do
        case $(cat "$_d/vendor" "$_d/class" 2>/dev/null | tr '\n' ' ') in "0x10de 0x0680"*) return 0 ;; esac
    done
    return 1
}
# running UNIT...: those that run, one a line, in this order.
running() {
    for _u in "$@"; do printf '%s\n' "$_u"; done >"$_dir/asked"
    timeout -k 5 30 systemctl show -p Id,ActiveState "$@" 2>/dev/null | awk -F= '
        $1 == "Id" {id = $2} $1 == "ActiveState" {state[id] = $2}
        END {while ((getline u <"'"$_dir/asked"'") > 0) if (state[u] ~ /^(active|activating|reloading)$/) print u}'
}
said_by() { journalctl -u "$1" -n 3 --no-pager -q -o cat 2>/dev/null >"$_dir/said"; end_of 3 "$_dir/said"; }

# stop_clients UNIT...: what runs is remembered before anything is stopped, with what an earlier step stopped.
stop_clients() {
    systemd_runs || return 0
    running "$@" >"$_dir/running"
    { [ ! -e "$_clients" ] || cat "$_clients"; cat "$_dir/running"; } | awk '$0 != "" && !seen[$0]++' >"$_dir/clients"
    keep "$_clients" <"$_dir/clients"
    for _u in "$@"; do
        grep -qxF -- "$_u" "$_dir/clients" || continue
        # What doesn't run any more may not even exist: the new packages may lack it.
        if ! grep -qxF -- "$_u" "$_dir/running" || timeout -k 10 100 systemctl stop "$_u" >"$_dir/out" 2>&1 </dev/null; then
            tell client "$_u" stopped ''
        else
            tell client "$_u" failed "$(end_of 3 "$_dir/out")"
        fi
    done
}
# start_clients WHICH UNIT...: those of these that were stopped, in this order. WHICH all: nothing is to be remembered
# any more once all run.
start_clients() {
    _which=$1; shift
    systemd_runs && [ -e "$_clients" ] || return 0
    _bad=0
    for _u in "$@"; do
        grep -qxF -- "$_u" "$_clients" || continue
        if [ "$_u" = nvidia-fabricmanager.service ] && ! has_switch; then
            tell client "$_u" skipped 'there is no NVSwitch for it'; continue
        fi
        case $(systemctl show -p LoadState --value "$_u" 2>/dev/null) in
        not-found) tell client "$_u" gone 'the new packages have no such unit'; continue ;;
        esac
        # Its tries to start without a module may have used up what systemd allows it.
        systemctl reset-failed "$_u" >/dev/null 2>&1
        if timeout -k 10 120 systemctl start "$_u" >"$_dir/out" 2>&1 </dev/null && [ -n "$(running "$_u")" ]; then
            tell client "$_u" started ''
        elif [ "$(systemctl show -p Type,Result --value "$_u" | tr '\n' ' ')" = 'oneshot success ' ]; then
            tell client "$_u" started ''
        else
            _bad=1; tell client "$_u" failed "$(end_of 2 "$_dir/out") $(said_by "$_u")"
        fi
    done
    [ "$_which$_bad" != all0 ] || rm -f "$_clients" "$_state/upgrade-modules"
}
