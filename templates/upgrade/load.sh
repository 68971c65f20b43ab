# Puts the driver's modules into the kernel and makes their device files.

# on_disk [KERNEL]: version of the nvidia module that modprobe would load. Debian's modprobe.d leads to its
# nvidia-current.ko by an alias or an "install" line, which modprobe knows and modinfo doesn't.
on_disk() {
    _on=${1:-$(uname -r)}
    modinfo -k "$_on" -F version nvidia 2>/dev/null && return
    _f=$(modprobe -S "$_on" -n -q --show-depends nvidia 2>/dev/null | awk '$1 == "insmod" {f = $2}
        $1 == "install" {for (i = 2; i < NF; i++) if ($i == "-i" || $i == "--ignore-install") f = $(i + 1)}
        END {print f}')
    [ -z "$_f" ] || modinfo -k "$_on" -F version "$_f" 2>/dev/null
}
# load PROGRAM MODULE...: these and what was unloaded before; PROGRAM makes the device files.
load() {
    _program=$1; shift
    printf '%s\n' "$@" >"$_dir/load"
    # In the kernel's order: what was unloaded last comes first.
    [ ! -e "$_state/upgrade-modules" ] || sed '1!G;h;$!d' "$_state/upgrade-modules" >>"$_dir/load"
    for _m in $(awk '$0 != "" && !seen[$0]++' "$_dir/load"); do
        [ ! -d "/sys/module/$_m" ] || continue
        bounded 120 modprobe "$_m" >"$_dir/out" 2>&1 && [ -d "/sys/module/$_m" ] ||
            { tell refused "$_m" "$(end_of 2 "$_dir/out")"; break; }
    done
    _v=; [ ! -r /sys/module/nvidia/version ] || read -r _v </sys/module/nvidia/version
    tell version "$_v" "$(on_disk)"
    if [ -n "$_v" ]; then
        bounded 120 "$_program" >"$_dir/out" 2>&1 || tell devices "$(end_of 3 "$_dir/out")"
    fi
}
# build VERSION KERNEL...: an installation ends well without a module when dkms had no headers or its compiler failed.
build() {
    _want=$1; shift
    command -v dkms >/dev/null 2>&1 || return 0
    for _k in "$@"; do
        [ "$(on_disk "$_k")" != "$_want" ] && [ -e "/lib/modules/$_k/build" ] || continue
        dkms autoinstall -k "$_k" || {
            for _f in /var/lib/dkms/nvidia*/*/build/make.log; do
                [ ! -r "$_f" ] || { tail -n 15 "$_f"; grep -m 1 'error:' "$_f"; }
            done
            return 1
        }
        depmod "$_k"
    done
}
# all_there VERSION KERNEL...: would modprobe load this version on each of these kernels?
all_there() {
    _want=$1; shift
    for _k in "$@"; do
        _have=$(on_disk "$_k")
        [ "$_have" = "$_want" ] || {
            printf 'the module on disk for kernel %s is %s, not %s\n' "$_k" "${_have:-missing}" "$_want" >&2; return 1; }
    done
}
