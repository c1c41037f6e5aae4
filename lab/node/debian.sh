# Takes files out of packages of Debian, into folders of the working directory, and installs none: programs has what the nodes run,
# busybox.root.tar the files of an image. The arguments are the packages of programs.
set -euo pipefail
fetch() {
	mkdir -p "$1" && cd "$1" && shift
	apt-get download "$@" || { apt-get update && apt-get download "$@"; }
	for file in *.deb; do dpkg-deb --extract "$file" . && rm "$file"; done
}
(fetch programs "$@")
(
	fetch busybox busybox libc6
	mkdir -m 1777 tmp
	for applet in $(bin/busybox --list); do [ -e "bin/$applet" ] || ln -s busybox "bin/$applet"; done
	tar --create --file ../busybox.root.tar --owner 0 --group 0 bin lib lib64 tmp
)
