# Finds a package closure in an apt root of its own below $root; the host's packages, lists, cache and
# configuration are only read. Variables set above: root stack top_sets top_fixed own_version driver toolkit uris.
LC_ALL=C; export LC_ALL
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
command -v apt-get >/dev/null 2>&1 || { echo 'this host has no apt-get' >&2; exit 3; }

mkdir -p "$root/parts" "$root/sources" "$root/prefs" "$root/auth" "$root/lists/partial" "$root/cache/archives/partial"
# The host's packages serve as ordinary dependencies, as they will in the real installation; those of the stack
# itself are left out, so that all of them are found, at the wanted version.
# without PATTERN FILE: the database without the packages whose whole name matches
without() { awk -v drop="^($1)\$" 'BEGIN {RS = ""; ORS = "\n\n"} $1 == "Package:" && $2 !~ drop' "$2"; }
without "$stack" /var/lib/dpkg/status >"$root/status"
# Hooks of the host's configuration could write to it (docker-clean empties the cache), so they are cleared last.
for f in /etc/apt/apt.conf.d/*; do
    [ -f "$f" ] && [ -r "$f" ] && cp "$f" "$root/parts/" 2>/dev/null
done
[ ! -f /etc/apt/apt.conf ] || cp /etc/apt/apt.conf "$root/parts/00main"
cat >"$root/parts/zzzz-isolated" <<'CONF'
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
CONF
cat >"$root/apt.conf" <<CONF
Dir::Etc::parts "$root/parts";
Dir::Etc::main "$root/none";
Dir::Etc::sourcelist "$root/none";
Dir::Etc::sourceparts "$root/sources";
Dir::Etc::preferences "$root/none";
Dir::Etc::preferencesparts "$root/prefs";
Dir::Etc::netrc "$root/none";
Dir::Etc::netrcparts "$root/auth";
Dir::State "$root";
Dir::State::status "$root/status";
Dir::State::extended_states "$root/extended";
Dir::State::lists "$root/lists";
Dir::Cache "$root/cache";
Dir::Cache::archives "$root/cache/archives";
Dir::Log "$root";
APT::Sandbox::User "root";
APT::Architectures { "$(dpkg --print-architecture)"; };
CONF
APT_CONFIG="$root/apt.conf"; export APT_CONFIG
for f in /etc/apt/auth.conf.d/*.conf; do
    [ ! -f "$f" ] || cp "$f" "$root/auth/"
done
[ ! -f /etc/apt/auth.conf ] || cp /etc/apt/auth.conf "$root/auth/00main.conf"

# The host's own sources serve the ordinary dependencies. An entry for a URI of ours would contradict our key.
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -f "$f" ] || continue
    case $f in
    */provision-*) continue ;;
    *.sources) awk -v uris="$uris" 'BEGIN {RS = ""; n = split(uris, u, "\n")}
        {for (i = 1; i <= n; i++) if (u[i] != "" && index($0, u[i])) next; print; print ""}' "$f" ;;
    *) awk -v uris="$uris" 'BEGIN {n = split(uris, u, "\n")}
        {for (i = 1; i <= n; i++) if (u[i] != "" && index($0, u[i])) next; print}' "$f" ;;
    esac >"$root/sources/host-${f##*/}"
done
own_sources

if ! apt-get -q -o APT::Update::Error-Mode=any update >"$root/log" 2>&1; then
    echo 'the package lists could not be read:' >&2
    grep -E '^(E:|W:|Err:|  )' "$root/log" | tail -n 20 >&2
    exit 4
fi

# Naming the top packages alone isn't enough: their parts are wanted at the same version. "Package: *" allows no
# pin by version, a glob does.
for v in "$driver-*" "*:$driver-*" "$driver"; do
    printf 'Package: ?*\nPin: version %s\nPin-Priority: 1000\n\n' "$v"
done >"$root/prefs/driver"
# Tools with versions of their own follow the driver's branch where a repository has that.
printf 'Package: %s\nPin: version %s.*\nPin-Priority: 995\n' "$own_version" "${driver%%.*}" >>"$root/prefs/driver"

# What on this host needs a package that was just left out is left out as well, until apt finds nothing broken.
for round in 1 2 3 4 5 6 7 8; do
    apt-get -q -s check >"$root/log" 2>&1 && break
    broken=$(sed -n 's/^ \([^ :]*\)[^ ]* *: .*/\1/p' "$root/log" | sort -u | sed 's/[.+]/[&]/g' | tr '\n' '|')
    [ -n "$broken" ] || break
    mv "$root/status" "$root/whole"
    without "${broken%|}" "$root/whole" >"$root/status"
done

# versions NAME: what the repositories have, newest first
versions() { apt-cache madison -- "$1" 2>/dev/null | awk -F' *[|] *' '!/Sources$/ && !seen[$2]++ {print $2}'; }
# at NAME UPSTREAM: the newest version of the package with that upstream part
at() {
    versions "$1" | awk -v want="$2" '{v = $0; sub(/^[0-9]+:/, "", v); sub(/-[^-]*$/, "", v)
        if (v == want) {print $0; exit}}'
}
candidate() { apt-cache policy -- "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '^(none)$'; }
missing() { printf 'missing\t%s\t%s\t%s\n' "$1" "$2" "$(versions "$1" | tr '\n' ' ')"; }

printf '%s\n' "$top_sets" | while read -r set; do
    all=yes; line=
    for name in $set; do
        v=$(at "$name" "$driver")
        case " $own_version " in *" $name "*) [ -n "$v" ] || v=$(candidate "$name") ;; esac
        if [ -n "$v" ]; then line="$line $name=$v"; else all=no; missing "$name" "$driver" >>"$root/missing"; fi
    done
    [ "$all" = no ] || { echo "$line" >"$root/top"; break; }
done
[ -s "$root/top" ] || { sort -u "$root/missing"; exit 0; }
line=$(cat "$root/top")
: >"$root/missing"
for name in $top_fixed; do
    v=$(at "$name" "$toolkit")
    if [ -n "$v" ]; then line="$line $name=$v"; else missing "$name" "$toolkit" >>"$root/missing"; fi
done
[ ! -s "$root/missing" ] || { cat "$root/missing"; exit 0; }
printf 'top %s\n' "$line"

set -f
if ! apt-get -q -s --no-install-recommends install $line >"$root/plan" 2>&1 && {
    # Something on the host needs what was left out: then as on a host without any package.
    cp "$root/plan" "$root/plan.host"; : >"$root/status"
    ! apt-get -q -s --no-install-recommends install $line >"$root/plan" 2>&1; }; then
    mv "$root/plan.host" "$root/plan"
    sed 's/^/failed\t/' "$root/plan"
    exit 0
fi
set +f
sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*\[\([^]]*\)\]).*$/inst\t\1\t\2\t\3/p; s/^Remv /remv\t/p' "$root/plan"
for p in $(sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*$/\1=\2/p' "$root/plan"); do echo "$p"; done |
    xargs apt-cache show 2>/dev/null | awk '
        /^Package: / {p = $2; s = p; v = d = c = ""} /^Source: / {s = $2} /^Version: / {v = $2} /^Section: / {c = $2}
        /^Description(-en)?: / && d == "" {d = $0; sub(/^[^:]*: /, "", d); gsub(/\t/, " ", d)}
        /^$/ {if (p != "") printf "show\t%s\t%s\t%s\t%s\t%s\n", p, v, s, c, d; p = ""}
        END {if (p != "") printf "show\t%s\t%s\t%s\t%s\t%s\n", p, v, s, c, d}'
echo end
