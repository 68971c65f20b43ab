# One apt transaction. Variables set above: install (NAME or NAME=VERSION, one a line), remove, hold, unhold (names),
# lists (repository names or *), downgrade (yes or ""), lock_wait (seconds), cache (a folder with all of install, or "").
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical APT_LISTCHANGES_FRONTEND=none UCF_FORCE_CONFFOLD=1
NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1
export DEBIAN_FRONTEND DEBIAN_PRIORITY APT_LISTCHANGES_FRONTEND UCF_FORCE_CONFFOLD NEEDRESTART_MODE NEEDRESTART_SUSPEND
# dpkg must not be ended half-way by a connection that is lost.
trap '' HUP PIPE
newline='
'

work=$(mktemp -d) || exit 71
log=$work/log
held=
restore_holds() {
    [ -z "$held" ] || manager apt-mark hold $held || printf 'these holds could not be put back: %s\n' "$held" >&2
    held=
}
trap 'restore_holds; rm -rf "$work"' EXIT
trap 'exit 143' TERM INT

say() { printf '%s\n' "$@" >&2; }
stop() { say "$@"; exit 1; }

# manager COMMAND...: its output goes to $log; waits while another process holds one of the package locks.
manager() {
    _until=$(($(date +%s) + lock_wait))
    while :; do
        "$@" >"$log" 2>&1 </dev/null && return 0
        _rc=$?
        grep -Eiq 'could not get lock|unable to (acquire|lock)|(frontend lock|database) (was|is) locked' "$log" ||
            return "$_rc"
        if [ "$(date +%s)" -ge "$_until" ]; then
            pid=$(grep -Eio '(held by process|with pid) [0-9]+' "$log" | grep -Eo '[0-9]+' | head -n 1)
            say "another process has held the package lock for $lock_wait s: ${pid:-unknown}$(
                [ -z "$pid" ] || sed 's/.*/ (&)/' "/proc/$pid/comm" 2>/dev/null)" \
                'wait for it to end, or see what it waits for; a lock file is never removed'
            return "$_rc"
        fi
        sleep 2
    done
}
apt() {
    manager apt-get -q -y -o DPkg::Lock::Timeout="$lock_wait" -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false \
        -o APT::Get::AutomaticRemove=false -o Acquire::Retries=3 -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold "$@"
}
complaints() { grep -E '^(E:|W:|Err:|dpkg: error|Errors |  )|No space left' "$log" | tail -n 20 >&2; }

update_all() {
    apt -o APT::Update::Error-Mode=any update || {
        say 'the package lists could not be read:'; complaints; return 1; }
}
update_one() {
    for f in "/etc/apt/sources.list.d/provision-$1.sources" "/etc/apt/sources.list.d/$1.sources" \
        "/etc/apt/sources.list.d/$1.list"; do
        [ -e "$f" ] || continue
        apt -o APT::Update::Error-Mode=any -o Dir::Etc::sourcelist="$f" -o Dir::Etc::sourceparts=- \
            -o APT::Get::List-Cleanup=0 update && return 0
        say "the package lists of repository $1 could not be read ($f):"; complaints
        return 1
    done
    say "repository $1 is not configured on this host: there is no /etc/apt/sources.list.d/provision-$1.sources"
    return 1
}

# offered: is $name to be had, at $version where one is asked for? Leaves all its versions in $found.
offered() {
    found=$(apt-cache madison -- "$name" 2>/dev/null | awk -F' *[|] *' '!/Sources$/ && !s[$2]++ {print $2}')
    [ -n "$found" ] && { [ -z "$version" ] || printf '%s\n' "$found" | grep -Fxq -e "$version"; }
}

fresh=no
case "$newline$lists$newline" in
*"$newline*$newline"*) update_all || exit 1; fresh=yes ;;
*) for name in $lists; do update_one "$name" || exit 1; done ;;
esac

# cached NAME VERSION: its file in the cache, which apt takes in place of a name.
cached() { find "$cache" -maxdepth 1 -name "$1_$(printf %s "$2" | sed 's/:/%3a/g')_*.deb" | head -n 1; }

set -f
from=
if [ -n "$install$remove" ]; then
    if [ -n "$(ls /var/lib/dpkg/updates 2>/dev/null)" ]; then
        stop 'dpkg was interrupted in the middle of an earlier transaction' \
            'it refuses new work until that one is ended' 'run on the host: dpkg --configure -a'
    fi
    bad=no
    for want in $install; do
        name=${want%%=*}; version=${want#"$name"}; version=${version#=}
        [ "$(dpkg-query -W -f '${db:Status-Status} ${Version}' -- "$name" 2>/dev/null)" != "installed $version" ] || {
            from="$from $want"; continue; }
        if [ -n "$cache" ]; then
            file=$(cached "$name" "$version"); from="$from $file"
            [ -n "$file" ] || { say "$name $version is not in $cache"; bad=yes; }
            continue
        fi
        from="$from $want"
        # The lists may be older than the repositories, or were never read: read them, once.
        offered || [ "$fresh" = yes ] || { fresh=yes; update_all || :; }
        offered || {
            bad=yes
            if [ -z "$found" ]; then say "no repository of this host has a package $name"
            else say "$name $version is not in the repositories of this host; they have: $(echo $found)"; fi; }
    done
    [ "$bad" = no ] || stop 'correct the version, or let the repository carry it; `provision lock` finds what fits'
fi

if [ -n "$unhold" ]; then
    for name in $(apt-mark showhold); do
        case " $(echo $unhold) " in *" ${name%%:*} "*) held="$held $name" ;; esac
    done
    [ -z "$held" ] || manager apt-mark unhold $held || { complaints; stop 'the holds could not be lifted'; }
fi

if [ -n "$install$remove" ]; then
    gone=; for name in $remove; do gone="$gone $name-"; done
    # A removed name that is no package here would be taken for a pattern.
    for name in $remove; do
        dpkg-query -W -f x -- "$name" >/dev/null 2>&1 || gone=$(echo " $gone " | sed "s, $name- , ,")
    done
    set -- ${downgrade:+--allow-downgrades} --no-install-recommends install $from $gone
    if ! apt -s "$@"; then
        cat "$log" >"$work/plan"
        say 'apt finds no way to install these packages:'
        grep -vE '^(Reading|Building|NOTE|  *apt-get needs|  *Keep also|  *so don|Inst|Conf|Remv)' "$work/plan" |
            tail -n 25 >&2
        others=$(apt-mark showhold | tr '\n' ' ')
        [ -z "$others" ] || say "held on this host: $others"
        exit 1
    fi
    others=$(awk '/^Remv / {print $2}' "$log" | while read -r name; do
        case " $(echo $remove) " in *" ${name%%:*} "*) ;; *) echo "$name" ;; esac
    done)
    [ -z "$others" ] || stop "this transaction would also remove: $(echo $others)" \
        'nothing was changed: packages that the plan does not name are never removed' \
        'remove them yourself, or see with `apt-cache rdepends` why they are in the way'
    if [ -n "$cache" ]; then
        # apt can't take files and be told not to download at once; what it would fetch is seen here instead.
        others=$(awk '/^Inst / {print $2}' "$log" | while read -r name; do
            case " $(echo $install)" in *" ${name%%:*}="*) ;; *) echo "$name" ;; esac
        done)
        [ -z "$others" ] || stop "this transaction would also install: $(echo $others)" "they are not in $cache"
    fi
    disk() {
        ! grep -q 'No space left on device\|enough free space' "$log" ||
            say "there is no space left: $(df -Ph / /var /boot 2>/dev/null | awk 'NR > 1 {print $6, $4 " free"}' |
                sort -u | tr '\n' ';')"
    }
    if [ -z "$cache" ] && ! apt --download-only "$@"; then
        if grep -q '404  *Not Found' "$log"; then
            # The lists are older than the archive: read them anew, once.
            update_all && apt --download-only "$@" || { disk; complaints; stop 'the packages could not be fetched'; }
        else
            disk; complaints; stop 'the packages could not be fetched; nothing was changed'
        fi
    fi
    if ! apt "$@"; then
        say 'the transaction failed:'; tail -n 20 "$log" >&2; disk
        # dpkg tells only that dkms failed. The compiler's first complaint is the cause.
        find /var/lib/dkms -name make.log -newer "$work" -exec grep -h 'error:' {} + 2>/dev/null |
            sed -n '1s/^/the compiler said: /p' >&2
        broken=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n 's/^.[UFH]. *//p; s/^..R *//p' | tr '\n' ' ')
        [ -z "$broken" ] || say "left in the middle: $broken" \
            'mend the cause shown above, then run on the host: dpkg --configure -a && apt-get -f install'
        exit 1
    fi
    for want in $install; do
        name=${want%%=*}; version=${want#"$name"}; version=${version#=}
        have=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' -- "$name" 2>/dev/null | head -n 1)
        case $have in
        "installed ${version:-${have#installed }}") ;;
        *) stop "apt ended well, but $name is: ${have:-not there} (wanted: ${version:-any version})" ;;
        esac
    done
fi

[ -z "$hold" ] || manager apt-mark hold $hold || { complaints; stop 'the packages could not be held'; }
# Only what is to stay held stays held; the holds that were lifted have done their work.
held=
exit 0
