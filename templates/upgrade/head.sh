# A roll's steps carry its token, a number that only grows from roll to roll: a host that has seen a larger one refuses
# them (status 76), so that a controller which wakes up after another took over does no harm.
_token=$_state/token
not_older() {
    _seen=0
    [ ! -e "$_token" ] || read -r _seen <"$_token" || _seen=
    _seen_run=${_seen#* }; _seen=${_seen%% *}
    case $_seen in
    '' | *[!0-9]*) printf '%s\n' "$_token holds no number" >&2; exit 76 ;;
    esac
    [ "$_seen" -le "$PROVISION_TOKEN" ] || {
        printf 'roll %s has worked on this host; this one is %s\n' "$_seen" "$PROVISION_TOKEN" >&2; exit 76; }
}
keep_token() {
    printf '%s %s\n' "$PROVISION_TOKEN" "$1" >"$_token.new" && { sync "$_token.new" 2>/dev/null || :; } \
        && mv -f "$_token.new" "$_token" || exit 71
}
# begin RUN WHO SETTLE LEASED: refuses an older roll, takes the host's lock, keeps the token. A step whose controller is
# gone is let end first, for at most SETTLE seconds. With a LEASED token so is a step of the roll that lost the lease,
# and its lock goes, even if its controller is still connected: it is refused from now on.
begin() {
    not_older
    read_lock
    if [ -n "$4" ] && [ -n "$_l_run" ] && [ "$_l_run" = "$_seen_run" ] && [ "$_seen" -lt "$PROVISION_TOKEN" ]; then
        _older=$_l_run; keep_token "$1"; _left=$3
        while read_lock; [ "$_l_run" = "$_older" ] && alive "$_l_script" "$_l_sstart" && [ "$_left" -gt 0 ]
        do _left=$((_left - 1)); sleep 1; done
        [ "$_left" -eq 0 ] || release_lock "$_older"
    fi
    settle "$3"
    take_lock "$1" "$2" "$(generation)"
    (not_older) || { release_lock "$1"; exit 76; }
    if [ "$_seen $_seen_run" != "$PROVISION_TOKEN $1" ]; then keep_token "$1"; fi
}
# tell WORD FIELD...: one row of the answer.
tell() {
    printf '%s' "$1"; shift
    for _field in "$@"; do printf '\t%s' "$(printf '%s' "$_field" | tr '\t\r\n' '   ')"; done
    printf '\n'
}
# keep FILE <TEXT: replaces a file of ours in one step.
keep() { cat >"$1.new" && { sync "$1.new" 2>/dev/null || :; } && mv -f "$1.new" "$1"; }
# end_of NUMBER FILE: its last lines as one, for a reason.
end_of() { tail -n "$1" "$2" | tr '\t\r\n' '   ' | sed 's/ *$//' | cut -c 1-600; }
