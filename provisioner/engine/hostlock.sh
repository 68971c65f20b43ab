# One run at a time changes a host. The lock lives as long as the connection that took it (PROVISION_ANCHOR is a
# process that ends with it) or the script it started; a dead holder's lock is simply taken over.
_lock=/run/provision/lock
_generation=/run/provision/generation
# started PID: when it started, in clock ticks; 0 where there is none, for an empty word would shift the lock's fields.
started() { _s=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20); echo "${_s:-0}"; }
alive() { [ "${1:-0}" != 0 ] && [ "${2:-0}" != 0 ] && [ "$(started "$1")" = "$2" ]; }
read_lock() {
    _l_anchor=; _l_astart=; _l_script=; _l_sstart=; _l_run=; _l_since=; _l_who=
    [ -r "$_lock" ] && read -r _l_anchor _l_astart _l_script _l_sstart _l_run _l_since _l_who <"$_lock" || :
}
# settle SECONDS: a script whose controller is gone is let end before the host is read.
settle() {
    _left=$1
    while read_lock; [ -n "$_l_script" ] && alive "$_l_script" "$_l_sstart" && ! alive "$_l_anchor" "$_l_astart"; do
        [ "$_left" -gt 0 ] || return 0
        _left=$((_left - 1)); sleep 1
    done
}
generation() { _number=; [ ! -r "$_generation" ] || read -r _number <"$_generation" || :; echo "${_number:-0}"; }
# take_lock RUN WHO GENERATION: status 73 when another run holds it, 74 when the host was changed since it was read.
take_lock() {
    exec 9>"$_lock.guard"; flock 9
    read_lock
    if [ -n "$_l_run" ] && [ "$_l_run" != "$1" ] \
        && { alive "$_l_anchor" "$_l_astart" || alive "$_l_script" "$_l_sstart"; }; then
        printf '%s has held this host since %s (run %s)\n' "$_l_who" "$_l_since" "$_l_run" >&2; exit 73
    fi
    _number_read=$(generation)
    if [ "$_number_read" != "$3" ]; then
        printf 'another run changed this host after it was read\n' >&2; exit 74
    fi
    _anchor=${PROVISION_ANCHOR:-0}
    printf '%s %s %s %s %s %s %s\n' "$_anchor" "$(started "$_anchor")" "$$" "$(started $$)" "$1" \
        "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$2" >"$_lock.new" && mv -f "$_lock.new" "$_lock" &&
        echo "$((_number_read + 1))" >"$_generation.new" && mv -f "$_generation.new" "$_generation" || {
        printf '%s\n' "can't write the lock below ${_lock%/*}: nothing was changed" >&2; exit 71; }
    exec 9>&-
}
# release_lock RUN
release_lock() {
    read_lock
    [ "$_l_run" != "$1" ] || rm -f "$_lock"
}
