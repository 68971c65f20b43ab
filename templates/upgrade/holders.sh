# Who holds the cards: processes by file descriptor and mapping, modules by what the kernel counts. Reads only.

# command_of PID: the program and its first plain words; from the first option on nothing, for that may be a secret.
command_of() {
    tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | awk '
        NR > 3 || (NR > 1 && /^-/) || /=/ {exit} NR == 1 {sub(".*/", "")} {s = s (NR > 1 ? " " : "") $0}
        END {print substr(s, 1, 80)}'
}
holding() {
    {
        find /proc/[0-9]*/fd -lname '*/dev/nvidia*' -printf '%h %l\n' 2>/dev/null
        grep -l '/dev/nvidia' /proc/[0-9]*/maps 2>/dev/null | sed 's,$, mapped,'
    } | awk '{sub(".*/proc/", "", $1); sub("/.*", "", $1); sub(".*/dev/", "/dev/", $2)
        if ($2 == "mapped") {if (!($1 in d)) d[$1] = ""}
        else if (index(d[$1] " ", " " $2 " ") == 0) d[$1] = d[$1] " " $2}
        END {for (q in d) print q d[q]}' | sort -n
}
tell_processes() {
    holding | while read -r _pid _devices; do
        read -r _comm <"/proc/$_pid/comm" || continue
        tell holder "$_pid" "$_comm" "$(command_of "$_pid")" "$_devices"
        # The longest path: with cgroup v1 some controllers may stand at the root.
        tell cgroup "$_pid" "$(cut -d: -f3- "/proc/$_pid/cgroup" 2>/dev/null |
            awk '{if (length($0) > length(l)) l = $0} END {print l}')"
    done 2>/dev/null
}
tell_modules() {
    for _m in /sys/module/nvidia /sys/module/nvidia[-_]* /sys/module/gdrdrv; do
        [ -e "$_m/refcnt" ] || continue
        _v=; [ ! -r "$_m/version" ] || read -r _v <"$_m/version"
        _r=; read -r _r <"$_m/refcnt"
        tell module "${_m##*/}" "$_r" "$_v" "$(ls "$_m/holders" 2>/dev/null | tr '\n' ' ')"
    done
}
tell_holders() { tell_processes; tell_modules; }
