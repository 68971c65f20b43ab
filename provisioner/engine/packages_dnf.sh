# One dnf transaction. Variables as for apt; versions are EPOCH:VERSION-RELEASE.
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
trap '' HUP PIPE
work=$(mktemp -d) || exit 71
locks=/etc/dnf/plugins/versionlock.list
restore_holds() { [ ! -f "$work/locks" ] || cat "$work/locks" >"$locks"; }
trap 'restore_holds; rm -rf "$work"' EXIT
trap 'exit 143' TERM INT
say() { printf '%s\n' "$@" >&2; }
stop() { say "$@"; exit 1; }
set -f

if [ -n "$hold$unhold" ] && ! dnf -q versionlock list >/dev/null 2>&1; then
    stop 'dnf has no versionlock command, so nothing can be held' 'install python3-dnf-plugin-versionlock'
fi
for name in $lists; do
    case $name in '*') set -- ;; *) set -- --disablerepo='*' --enablerepo="provision-$name" ;; esac
    dnf -q -y "$@" makecache --refresh >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2; stop "the package lists of repository $name could not be read"; }
done
if [ -n "$unhold" ]; then
    [ ! -f "$locks" ] || cp "$locks" "$work/locks"
    for name in $unhold; do dnf -q versionlock delete "$name" >/dev/null 2>&1 || :; done
fi
if [ -n "$install$remove" ]; then
    wanted=$(printf '%s\n' $install | sed 's/=/-/')
    [ -z "$remove" ] || for name in $remove; do echo "remove $name"; done >"$work/script"
    for name in $wanted; do echo "install $name"; done >>"$work/script"
    echo run >>"$work/script"
    # Without --allowerasing dnf refuses to remove what it wasn't told to.
    if [ -n "$downgrade" ]; then
        [ -z "$remove" ] || dnf -q -y remove $remove >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
        dnf -q -y --setopt=install_weak_deps=False install $wanted >"$work/log" 2>&1 ||
            dnf -q -y --setopt=install_weak_deps=False downgrade $wanted >"$work/log" 2>&1
    else
        dnf -q -y --setopt=install_weak_deps=False shell "$work/script" >"$work/log" 2>&1
    fi || { say 'the transaction failed:'; tail -n 20 "$work/log" >&2; exit 1; }
    for want in $install; do
        name=${want%%=*}; version=${want#"$name"}; version=${version#=}
        have=$(rpm -q --qf '%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n' -- "$name" 2>/dev/null | head -n 1)
        case ${version:-$have} in
        "$have" | "${have#0:}") ;;
        *) stop "dnf ended well, but $name is ${have:-not there} (wanted: $version)" ;;
        esac
    done
fi
for name in $hold; do
    dnf -q versionlock add "$name" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; stop "$name could not be held"; }
done
rm -f "$work/locks"
exit 0
