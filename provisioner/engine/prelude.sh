# What a stage's script begins with. Every change runs in a subshell of its own; its output is framed by length.
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
umask 022
# A connection that ends must not end a step half-way: the script goes on to its end without it.
trap '' HUP PIPE

_state=/var/lib/provision
_run=/run/provision
mkdir -p "$_run" "$_state/previous" && chmod 700 "$_state/previous" || {
    printf '%s\n' "can't write below $_state and $_run" >&2; exit 71; }
_dir=$(mktemp -d "$_run/stage.XXXXXX") || exit 71
trap 'rm -rf "$_dir"' EXIT

fail() { printf '%s\n' "$1" >&2; exit 1; }

# plain PATH: a folder, a device (a masked unit is a link to /dev/null) or a socket is never replaced or removed.
plain() { [ ! -e "$1" ] || [ -f "$1" ] || fail "$1 is not a file: it stays as it is"; }

# put_file PATH SHA256 MODE OWNER GROUP PREVIOUS <BASE64: replaces atomically, link followed, attributes kept.
put_file() {
    _t=$1
    if [ -L "$1" ]; then _t=$(readlink -f "$1") || fail "$1 is a link that leads nowhere"; fi
    plain "$_t"
    _d=$(dirname "$_t")
    [ -d "$_d" ] || (umask 022; mkdir -p "$_d") || fail "can't make the folder $_d"
    [ -z "$6" ] || keep_previous "$_t" "$6"
    _n=$(mktemp "$_d/.provision.XXXXXX") || fail "can't write in $_d"
    if ! base64 -d >"$_n"; then rm -f "$_n"; fail "can't write $_t: it is as it was"; fi
    _h=$(sha256sum <"$_n"); _h=${_h%% *}
    if [ "$_h" != "$2" ]; then rm -f "$_n"; fail "what was written for $_t isn't what was sent: it is as it was"; fi
    if [ -e "$_t" ]; then
        cp --attributes-only --preserve=all "$_t" "$_n" || { rm -f "$_n"; fail "can't keep mode and owner of $_t"; }
    elif [ -z "$3" ]; then
        chmod 644 "$_n"
    fi
    touch "$_n"
    [ -z "$4$5" ] || chown "$4${5:+:$5}" "$_n" || { rm -f "$_n"; fail "can't give $_t to $4:$5"; }
    [ -z "$3" ] || chmod "$3" "$_n"
    sync "$_n" 2>/dev/null || :
    mv -fT "$_n" "$_t" || { rm -f "$_n"; fail "can't replace $_t"; }
    sync "$_d" 2>/dev/null || :
}

# keep_previous PATH NAME: what is at PATH, or that nothing is, so that restore can bring it back.
keep_previous() {
    forget "$2"
    if [ -e "$1" ]; then
        cp -p --preserve=all "$1" "$_state/previous/$2.new" && mv -f "$_state/previous/$2.new" "$_state/previous/$2" \
            || { rm -f "$_state/previous/$2.new"; fail "can't keep the previous $1: it is as it was"; }
    else
        : >"$_state/previous/$2.absent" || fail "can't note that there was no $1"
    fi
}

same() { [ -e "$1" ] && [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ]; }

forget() { rm -f "$_state/previous/$1" "$_state/previous/$1.absent"; }

# restore PATH NAME: nothing kept means that nothing was replaced. What is back in its place isn't kept any longer: a
# later way back must not bring it over what a person wrote since.
restore() {
    _t=$1; [ ! -L "$1" ] || _t=$(readlink -f "$1")
    plain "$_t"
    if [ -e "$_state/previous/$2.absent" ]; then rm -f "$_t"
    elif [ -e "$_state/previous/$2" ] && ! same "$_t" "$_state/previous/$2"; then
        _n=$(mktemp "$(dirname "$_t")/.provision.XXXXXX") && cp -p --preserve=all "$_state/previous/$2" "$_n" \
            && sync "$_n" && mv -fT "$_n" "$_t" || { rm -f "$_n"; fail "can't put the previous $1 back"; }
    fi
    forget "$2"
}

remove_file() {
    [ -e "$1" ] || [ -L "$1" ] || return 0
    [ -L "$1" ] || plain "$1"
    [ -z "$2" ] || keep_previous "$1" "$2"
    rm -f "$1"
}

make_directory() {
    [ -d "$1" ] || mkdir -p "$1" || fail "can't make the folder $1"
    [ -z "$3$4" ] || chown "$3${4:+:$4}" "$1"
    [ -z "$2" ] || chmod "$2" "$1"
}

make_link() {
    [ ! -e "$1" ] || [ -L "$1" ] || fail "$1 is there and isn't a link"
    mkdir -p "$(dirname "$1")"
    ln -sfn "$2" "$1.provision-new" && mv -fT "$1.provision-new" "$1"
}

systemd_runs() { [ -d /run/systemd/system ]; }

# within SECONDS LABEL <SCRIPT: a script of its own under a kill timer, with no standard input.
within() {
    _rc=0
    timeout -k 10 "$1" sh -c 's=$(cat); exec </dev/null; eval "$s"' || _rc=$?
    [ "$_rc" -ne 124 ] && [ "$_rc" -ne 137 ] || printf '%s did not end within %s s\n' "$2" "$1" >&2
    return "$_rc"
}

# change NUMBER FUNCTION: runs one change, tells how it ended; the first failure ends the stage.
change() {
    printf '@begin %s\n' "$1" || :
    _from=$(date +%s)
    "$2" >"$_dir/out" 2>&1 </dev/null
    _rc=$?
    [ -e "$_dir/restored" ] || : >"$_dir/restored"
    _size=$(wc -c <"$_dir/out"); _rsize=$(wc -c <"$_dir/restored")
    { printf '@end %s %s %s %s %s\n' "$1" "$_rc" "$(($(date +%s) - _from))" "$_rsize" "$_size"
      cat "$_dir/restored" "$_dir/out"; } || :
    rm -f "$_dir/restored"
    [ "$_rc" -eq 0 ] || exit 0
}
