# What proves that a driver works, beyond what files tell. Needs layout.sh and clients.sh.

# self_test PROGRAM SECONDS CONFIG
self_test() {
    [ -x "$1" ] || return 0
    bounded "$2" "$1" "$3" >"$_dir/out" 2>&1
    tell selftest "$?" "$(end_of 1 "$_dir/out")"
}
prove() {
    cards_now now
    specs_now now
    tell_before
    bounded 60 nvidia-smi --query-gpu=driver_version --format=csv,noheader >"$_dir/out" 2>&1
    _rc=$?
    # A warning about the infoROM comes with status 14 and doesn't matter here.
    [ "$_rc" != 14 ] || sed -i '/^WARNING/d' "$_dir/out"
    tell smi-driver "$_rc" "$(sort -u "$_dir/out" | tr '\n' ' ')"
    if has_switch; then
        _fm=$(command -v nv-fabricmanager) || { tell fabric '' 'there is no nv-fabricmanager'; return; }
        bounded 20 "$_fm" --version >"$_dir/out" 2>&1
        tell fabric "$(grep -Eo '[0-9]{3,}\.[0-9.]+[0-9]' "$_dir/out" | head -n 1)" \
            "$(systemctl show -p ActiveState --value nvidia-fabricmanager.service 2>/dev/null)"
    fi
}
