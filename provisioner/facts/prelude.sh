# Reads only. Every probe runs in a subshell; its status and both streams come back framed by length.
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
umask 077

absent() { exit 69; }
unknown() { printf '%s\n' "$1" >&2; exit 70; }

# bounded SECONDS COMMAND...: its output and status, or status 75 when it doesn't end in time. A process in
# uninterruptible sleep can't be killed (a hung nvidia-smi is), so nothing here waits for one.
bounded() {
    _limit=$1; shift
    _b="$_dir/bounded.$_n"
    rm -f "$_b.rc"
    ( setsid "$@" </dev/null >"$_b.out" 2>"$_b.err" & _pid=$!; printf '%s' "$_pid" >"$_b.pid"
      wait "$_pid"; printf '%s' "$?" >"$_b.tmp"; mv "$_b.tmp" "$_b.rc" ) >/dev/null 2>&1 &
    _waiter=$!
    _tenths=$((_limit * 10)) _quick=10
    while [ ! -e "$_b.rc" ]; do
        # Most commands end within a few milliseconds: look often at first.
        if [ "$_quick" -gt 0 ]; then _quick=$((_quick - 1)); sleep 0.01; continue; fi
        [ "$_tenths" -le 0 ] && break
        _tenths=$((_tenths - 1)); sleep 0.1
    done
    if [ -e "$_b.rc" ]; then
        cat "$_b.out"; cat "$_b.err" >&2
        return "$(cat "$_b.rc")"
    fi
    # Who waits for it goes first: what it would write next lies in a folder that is about to be removed.
    kill -KILL "$_waiter" 2>/dev/null
    kill -KILL "-$(cat "$_b.pid")" 2>/dev/null
    printf '%s did not answer within %s s\n' "$1" "$_limit" >&2
    return 75
}

_dir=$(mktemp -d /run/provision-probe.XXXXXX 2>/dev/null || mktemp -d) || exit 71
trap 'rm -rf "$_dir"' EXIT
_n=0
_probe() {
    _n=$((_n + 1))
    "$1" >"$_dir/$_n.out" 2>"$_dir/$_n.err" </dev/null
    printf '%s' "$?" >"$_dir/$_n.rc"
}
# One wc and one cat for all answers together: on a slow host processes are what an observation costs.
_report() {
    set --
    _i=0
    while [ "$_i" -lt "$_n" ]; do
        _i=$((_i + 1))
        set -- "$@" "$_dir/$_i.head" "$_dir/$_i.out" "$_dir/$_i.err"
        : >"$_dir/$_i.head"
    done
    wc -c "$@" </dev/null >"$_dir/sizes"
    _i=0
    while [ "$_i" -lt "$_n" ]; do
        _i=$((_i + 1))
        read -r _head _name
        read -r _out _name
        read -r _err _name
        read -r _rc <"$_dir/$_i.rc" || :
        printf '@probe %s %s %s %s\n' "$_i" "$_rc" "$_out" "$_err" >"$_dir/$_i.head"
    done <"$_dir/sizes"
    cat "$@" </dev/null
    printf '@end %s\n' "$_n"
}
