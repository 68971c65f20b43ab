# Reads only. Every probe runs in a subshell; its status and both streams come back framed by length.
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
umask 077

absent() { exit 69; }
unknown() { printf '%s\n' "$1" >&2; exit 70; }

# bounded SECONDS COMMAND...: its output and status, or status 75 when it doesn't end in time. A process in
# uninterruptible sleep can't be killed (a hung nvidia-smi is), so nothing here waits for one.
bounded() {
    _limit=$1 _what=$2; shift
    _b="$_dir/bounded.$_n"
    [ ! -e "$_b.rc" ] || rm -f "$_b.rc"
    ( setsid "$@" </dev/null >"$_b.out" 2>"$_b.err" & _pid=$!; printf '%s\n' "$_pid" >"$_b.pid"
      wait "$_pid"; printf '%s\n' "$?" >"$_b.rc" ) >/dev/null 2>&1 &
    _waiter=$!
    # Most commands end within a few hundredths of a second: look often at first.
    _tenths=$((_limit * 10)); set -- 0.01 0.02 0.03 0.04; _rc=
    # Without a whole line in it, the file is just being written.
    until { read -r _rc <"$_b.rc"; } 2>/dev/null; do
        if [ $# -gt 0 ]; then sleep "$1"; shift; continue; fi
        [ "$_tenths" -gt 0 ] || break
        _tenths=$((_tenths - 1)); sleep 0.1
    done
    if [ -n "$_rc" ]; then
        cat "$_b.out"; [ ! -s "$_b.err" ] || cat "$_b.err" >&2
        return "$_rc"
    fi
    # Who waits for it goes first: what it would write next lies in a folder that is about to be removed.
    kill -KILL "$_waiter" 2>/dev/null || :
    { read -r _pid <"$_b.pid" && kill -KILL "-$_pid"; } 2>/dev/null || :
    printf '%s did not answer within %s s\n' "$_what" "$_limit" >&2
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
