# Fetches packages into folders of ours; what is installed stays as it is. Needs head.sh.
# Variables of a set: wanted (NAME VERSION ROLE, one a line), removed (names), mode (target: resolve what else it needs;
# previous: exactly these).
_cache=$_state/packages
LC_ALL=C; export LC_ALL
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND

lists_are_new=no
update_lists() {
    [ "$lists_are_new" = no ] || return 1
    lists_are_new=yes
    timeout -k 10 300 apt-get -q -y -o Acquire::Retries=3 update >"$_dir/update" 2>&1 </dev/null ||
        grep -E '^(E|W|Err)' "$_dir/update" | tail -n 5 >&2
    return 0
}
# names_of FILE: NAME=VERSION of its rows.
names_of() { awk '{print $1 "=" $2}' "$1"; }
# offered FILE: of the wanted rows in it, name, version, architecture, size and SHA-256 as the signed lists have them.
offered() {
    apt-cache -q show $(names_of "$1") 2>/dev/null | awk -v F="$1" '
        BEGIN {while ((getline l <F) > 0) {split(l, w, " "); want[w[1] " " w[2]] = 1}}
        function row() {if ((p " " v) in want && h != "") print p, v, a, z, h; p = v = a = z = h = ""}
        /^Package: / {row(); p = $2} /^Version: / {v = $2} /^Architecture: / {a = $2} /^Size: / {z = $2} /^SHA256: / {h = $2}
        END {row()}'
}
file_name() { printf '%s_%s_%s.deb' "$1" "$(printf %s "$2" | sed 's/:/%3a/g')" "$3"; }
# is_package FILE NAME VERSION: readable, and what its name says.
is_package() {
    [ -s "$1" ] && [ "$(dpkg-deb -W --showformat='${Package} ${Version}' "$1" 2>/dev/null)" = "$2 $3" ]
}
# from_archives NAME VERSION: a copy that apt kept from an earlier installation; checked by apt when it came.
from_archives() {
    for _f in "/var/cache/apt/archives/$1_$(printf %s "$2" | sed 's/:/%3a/g')"_*.deb; do
        if is_package "$_f" "$1" "$2"; then cp -f "$_f" "$_set/.new" && mv -f "$_set/.new" "$_set/${_f##*/}" && return 0; fi
    done
    return 1
}
# lacking: of the wanted rows, those that neither the lists offer nor the folder has.
lacking() {
    awk 'FILENAME == ARGV[1] {have[$1 " " $2] = 1; next} !(($1 " " $2) in have)' "$_dir/offered" "$_dir/wanted" |
        while read -r _name _version _role; do
            _found=no
            for _f in "$_set/${_name}_$(printf %s "$_version" | sed 's/:/%3a/g')"_*.deb; do
                if is_package "$_f" "$_name" "$_version"; then _found=yes; fi
            done
            [ "$_found" = yes ] || from_archives "$_name" "$_version" || printf '%s %s\n' "$_name" "$_version"
        done
}
# resolve: what else apt would install for this, and whether it would remove what nobody named.
resolve() {
    _gone=; for _name in $removed; do _gone="$_gone $_name-"; done
    if ! timeout -k 10 120 apt-get -s -q -y --no-install-recommends --allow-downgrades --allow-change-held-packages \
        install $(names_of "$_dir/wanted") $_gone >"$_dir/plan" 2>&1 </dev/null; then
        tell trouble "$1" "apt finds no way to install these packages: $(grep -vE '^(Reading|Building|NOTE|Inst|Conf|Remv)' \
            "$_dir/plan" | tail -n 6 | tr '\n' ' ')"
        return 1
    fi
    _others=$(awk '/^Remv / {print $2}' "$_dir/plan" | while read -r _name; do
        case " $(echo $removed) " in *" ${_name%%:*} "*) ;; *) printf '%s\n' "$_name" ;; esac
    done)
    [ -z "$_others" ] || { tell trouble "$1" "it would also remove $(echo $_others), which the lock doesn't name"; return 1; }
    awk 'FILENAME == ARGV[1] {have[$1] = 1; next} /^Inst / {n = $2; sub(":.*", "", n); v = $0; sub(/^[^(]*\(/, "", v); sub(/ .*/, "", v)
        if (!(n in have)) print n, v, "dependency"}' "$_dir/wanted" "$_dir/plan" >"$_dir/more"
    cat "$_dir/more" >>"$_dir/wanted"
}
# there: rows of the folder's right files: NAME VERSION ROLE ARCH SIZE SHA256 FILE.
there() {
    while read -r _name _version _role; do
        for _f in "$_set/${_name}_$(printf %s "$_version" | sed 's/:/%3a/g')"_*.deb; do
            is_package "$_f" "$_name" "$_version" || continue
            _sum=$(sha256sum <"$_f"); _sum=${_sum%% *}
            # Where the lists know the package, the file must be theirs.
            if grep -q "^$_name $_version " "$_dir/offered" 2>/dev/null && ! grep -q " $_sum\$" "$_dir/offered"; then
                rm -f "$_f"; continue
            fi
            _arch=${_f##*_}
            printf '%s %s %s %s %s %s %s\n' "$_name" "$_version" "$_role" "${_arch%.deb}" "$(stat -c %s "$_f")" \
                "$_sum" "${_f##*/}"
            break
        done
    done <"$_dir/wanted"
}
# download: what is to be got, each file checked by apt against the signed lists.
download() {
    (cd "$_set" && timeout -k 10 1500 apt-get -q -y -o APT::Sandbox::User=root -o Acquire::Retries=3 \
        download $(names_of "$_dir/get")) >"$_dir/log" 2>&1 </dev/null
}
# fetch SET RUN: fills $_cache/SET and tells what is in it.
fetch() {
    _set=$_cache/$1
    mkdir -p "$_set" && chmod 755 "$_cache" "$_set" || { tell trouble "$1" "can't write below $_cache"; return 0; }
    if [ "$(sed -n 's/^run //p' "$_set/manifest" 2>/dev/null)" = "$2" ]; then
        # An installation that was interrupted must not change what the way back is.
        sed -n 's/^package //p' "$_set/manifest" | awk '{print $1, $2, $3}' >"$_dir/wanted"
        removed=$(sed -n 's/^remove //p' "$_set/manifest")
    else
        rm -f "$_set/manifest"
        printf '%s\n' "$wanted" | awk 'NF' >"$_dir/wanted"
    fi
    offered "$_dir/wanted" >"$_dir/offered"
    lacking >"$_dir/lacking"
    if [ -s "$_dir/lacking" ] && update_lists; then
        offered "$_dir/wanted" >"$_dir/offered"; lacking >"$_dir/lacking"
    fi
    if [ "$mode" = target ] && [ ! -s "$_dir/lacking" ] && [ ! -e "$_set/manifest" ]; then
        resolve "$1" || return 0
        offered "$_dir/wanted" >"$_dir/offered"
    fi
    there >"$_dir/there"
    awk 'FILENAME == ARGV[1] {have[$1 " " $2] = 1; next} FILENAME == ARGV[2] {can[$1 " " $2] = $4; next}
        !(($1 " " $2) in have) && ($1 " " $2) in can {print $1, $2, can[$1 " " $2]}' \
        "$_dir/there" "$_dir/offered" "$_dir/wanted" >"$_dir/get"
    _need=$(awk '{s += $3} END {printf "%d", s / 1048576 + 64}' "$_dir/get")
    _free=$(df -Pk "$_set" | awk 'NR == 2 {printf "%d", $4 / 1024}')
    if [ -s "$_dir/get" ] && [ "$_free" -lt "$_need" ]; then
        tell trouble "$1" "$_free MiB free below $_cache, $_need needed"; return 0
    fi
    if [ -s "$_dir/get" ]; then
        download || { update_lists && download; } || {
            grep -E '^(E:|W:|Err:)' "$_dir/log" >"$_dir/said"
            tell trouble "$1" "the packages could not be fetched: $(end_of 4 "$_dir/said")"
        }
        there >"$_dir/there"
    fi
    awk 'FILENAME == ARGV[1] {have[$1 " " $2] = 1; next} !(($1 " " $2) in have) {print $1, $2}' "$_dir/there" "$_dir/wanted" |
        while read -r _name _version; do tell missing "$1" "$_name" "$_version"; done >"$_dir/missing"
    cat "$_dir/missing"
    if [ ! -s "$_dir/missing" ]; then
        { printf 'run %s\n' "$2"; sed 's/^/package /' "$_dir/there"; for _name in $removed; do echo "remove $_name"; done; } |
            keep "$_set/manifest"
    fi
    tell_set "$1" "$_dir/there"
}
# tell_set SET ROWS
tell_set() {
    awk -v s="$1" '{print "package\t" s "\t" $1 "\t" $2 "\t" $3 "\t" $4 "\t" $5}' "$2"
    for _name in $removed; do tell remove "$1" "$_name"; done
    tell free "$1" "$(df -Pk "$_cache" | awk 'NR == 2 {printf "%d", $4 / 1024}')"
}
# stored SET: what its manifest says.
stored() {
    _set=$_cache/$1
    [ -e "$_set/manifest" ] || return 0
    sed -n 's/^package //p' "$_set/manifest" >"$_dir/there"
    removed=$(sed -n 's/^remove //p' "$_set/manifest")
    tell stored "$1"
    while read -r _name _version _role _arch _size _sum _file; do
        _now=$(sha256sum 2>/dev/null <"$_set/$_file"); [ "${_now%% *}" = "$_sum" ] || tell missing "$1" "$_name" "$_version"
    done <"$_dir/there" 2>/dev/null
    tell_set "$1" "$_dir/there"
}
# tidy SET...: only these stay.
tidy() {
    for _old in "$_cache"/*; do
        [ -d "$_old" ] || continue
        case " $* " in *" ${_old##*/} "*) ;; *) rm -rf "$_old" ;; esac
    done
}
