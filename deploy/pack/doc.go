// Command pack makes the files of a release from the programs that deploy/build.sh has built: archives,
// Debian packages, npm packages of the programs, a Homebrew formula, lists of what the programs are made
// of, the licenses of that, and checksums. deploy/release.sh calls it.
//
//	pack VERSION WORK FOLDER
//
// WORK has the programs in bin/OS-ARCH, the manual in man, the shells' completions in completions,
// and what the Python sdist holds in sdist; the release is written to FOLDER, beside what is there already.
//
// The same input gives the same bytes on every machine: all times are those of SOURCE_DATE_EPOCH, entries are
// sorted, nothing has an owner, and modes do not follow the umask. That is why archives and Debian packages are
// written here, and not by the tar, zip and dpkg-deb of a machine. nfpm would write the latter too, but it is
// 40 modules, git and OpenPGP among them, for one tar in an ar.
//
// It is a module of its own, so that nobody else depends on what it needs.
package main
