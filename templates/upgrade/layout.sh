# The cards as nvidia-smi lists them, with their MIG instances, and the CDI specs: as they were before, and are now.
_before=$_state/upgrade-before

# cards_now WHEN: one row a card: its UUID, model and MIG profiles in their order.
cards_now() {
    bounded 60 nvidia-smi -L >"$_dir/smi" 2>"$_dir/smi.err"
    _rc=$?
    [ "$_rc" = 0 ] || [ "$_rc" = 14 ] || { cat "$_dir/smi" >>"$_dir/smi.err"; tell smi "$1" "$_rc" "$(end_of 3 "$_dir/smi.err")"; return 0; }
    awk -v w="$1" '
        function row() {if (u != "") printf "card\t%s\t%s\t%s\t%s\n", w, u, n, m; u = n = m = ""}
        /^GPU [0-9]+: / {row(); n = $0; sub(/^GPU [0-9]+: /, "", n); sub(/ \(UUID: .*/, "", n)
            u = $0; sub(/.*\(UUID: /, "", u); sub(/\).*/, "", u)}
        /^ +MIG / {m = m (m == "" ? "" : " ") $2}
        END {row()}' "$_dir/smi"
}
# specs_now WHEN: one row a CDI spec of whole cards: path, driver versions in it, device names in it.
specs_now() {
    for _f in /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json; do
        grep -Eqs '"?kind"?: *"?nvidia\.com/(gpu|mig)' "$_f" || continue
        tell spec "$1" "$_f" "$(grep -Eo '\.so\.[0-9]{3,}\.[0-9.]*[0-9]' "$_f" | sed 's/^\.so\.//' | sort -u | tr '\n' ' ')" \
            "$(sed -n 's/^ *\(- \)\{0,1\}"\{0,1\}name"\{0,1\}: *"\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\2/p' "$_f" | sort -u | tr '\n' ' ')"
    done
}
# remember RUN: how it is before this roll touches anything; once.
remember() {
    [ "$(head -n 1 "$_before" 2>/dev/null)" = "run $1" ] || {
        printf 'run %s\n' "$1"
        [ ! -e /sys/module/nvidia ] || ! command -v nvidia-smi >/dev/null 2>&1 || cards_now before
        specs_now before
    } >"$_dir/before"
    [ ! -s "$_dir/before" ] || keep "$_before" <"$_dir/before"
    tell_before
}
tell_before() { [ ! -e "$_before" ] || sed 1d "$_before"; }

# mig_back: the MIG instances that were there before; neither they nor, from Hopper on, the mode outlives the driver.
mig_back() {
    tell_before | awk -F'\t' '$1 == "card" && $5 != ""' >"$_dir/mig"
    [ -s "$_dir/mig" ] || return 0
    if systemd_runs && systemctl is-enabled -q nvidia-mig-manager.service 2>/dev/null; then
        timeout -k 10 300 systemctl restart nvidia-mig-manager.service >/dev/null 2>&1 || :
    fi
    cards_now now >"$_dir/now"
    while IFS="$(printf '\t')" read -r _word _when _uuid _name _wanted; do
        _have=$(awk -F'\t' -v u="$_uuid" '$3 == u {print $5}' "$_dir/now")
        # Instances that somebody divided further, or that are there in part, are left to a person.
        case $_wanted in *c.*) continue ;; esac
        [ -z "$_have" ] || continue
        bounded 60 nvidia-smi -i "$_uuid" -mig 1 >/dev/null 2>&1 || :
        bounded 60 nvidia-smi mig -i "$_uuid" -cgi "$(printf %s "$_wanted" | tr ' ' ,)" -C >"$_dir/out" 2>&1 ||
            tell trouble "MIG instances of $_uuid: $(end_of 2 "$_dir/out")"
    done <"$_dir/mig"
}

# specs_fresh VERSION: specs that name other libraries than this driver's are generated anew, in their place.
specs_fresh() {
    { tell_before; specs_now now; } | awk -F'\t' '$1 == "spec" {print $3}' | sort -u >"$_dir/specs"
    specs_now now >"$_dir/now"
    while read -r _spec; do
        case $(awk -F'\t' -v f="$_spec" '$3 == f {print "is " $4}' "$_dir/now") in
        "is $1 " | 'is ') continue ;;
        esac
        case $_spec in /var/run/cdi/*)
            if systemd_runs && [ "$(systemctl show -p LoadState --value nvidia-cdi-refresh.service)" = loaded ]; then
                timeout -k 10 90 systemctl restart nvidia-cdi-refresh.service >/dev/null 2>&1 || :
                specs_now now | awk -F'\t' -v f="$_spec" -v v="$1 " '$3 == f && $4 == v {ok = 1} END {exit !ok}' && continue
            fi ;;
        esac
        command -v nvidia-ctk >/dev/null 2>&1 || { tell trouble "CDI: there is no nvidia-ctk to write $_spec anew"; continue; }
        _new=$_dir/spec.${_spec##*.}
        bounded 90 nvidia-ctk cdi generate --output="$_new" >"$_dir/out" 2>&1 && [ -s "$_new" ] ||
            { tell trouble "CDI: $(end_of 2 "$_dir/out")"; continue; }
        ( put_file "$_spec" "$(sha256sum <"$_new" | cut -d' ' -f1)" '' '' '' '' <<X
$(base64 "$_new")
X
        ) >"$_dir/out" 2>&1 || tell trouble "CDI: $(end_of 2 "$_dir/out")"
    done <"$_dir/specs"
}
