#!/bin/bash
# SPDX-License-Identifier: MIT
# For which AMD architectures a build is configured, and by which compiler: device/hip/gpu_hip.cmake as a script, with a
# folder that looks like ROCm, and compilers that know some architectures. Neither HIP nor a clang is needed.
# usage: hip_configure.sh        ends 0 or 1
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
failures=0

mkdir -p "$folder/include/hip" "$folder/lib" "$folder/llvm/bin"
touch "$folder/include/hip/hip_runtime_api.h" "$folder/lib/libamdhip64.so" "$folder/lib/libhsa-runtime64.so" \
    "$folder/llvm/bin/llvm-objdump" "$folder/llvm/bin/llvm-objcopy"
printf '#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 0\n' >"$folder/include/hip/hip_version.h"

# A clang that knows these architectures alone.
knows() {
    cat >"$folder/llvm/bin/clang" <<END
#!/bin/sh
for option in "\$@"; do
    case \$option in
    -dumpversion) echo 19.1.7 ;;
    -print-resource-dir) echo /nowhere ;;
    --offload-arch=*) case " $* " in *" \${option#--offload-arch=} "*) ;; *)
        echo "clang: error: invalid target ID '\${option#--offload-arch=}'" >&2
        exit 1 ;;
    esac ;;
    esac
done
END
    chmod +x "$folder/llvm/bin/clang"
}

configure() { # ARCHITECTURES
    cmake -DGPU=hip -DHIP_ROOT="$folder" -DISO_HIP_ARCH="$1" -DPROJECT_BINARY_DIR="$folder" \
        -DPROJECT_SOURCE_DIR="$root" -DISO_HIP_COMPILER="$folder/llvm/bin/clang" \
        -P "$folder/script.cmake" >"$folder/said" 2>&1
}
# A script has no source files that could get options.
cat >"$folder/script.cmake" <<END
function(set_source_files_properties)
endfunction()
include($root/device/hip/gpu_hip.cmake)
message(STATUS "command: \${ISO_KERNEL_COMMAND}")
END

expect() { # WHAT PATTERN...: all of them in what cmake has said, lines joined
    local what=$1 pattern said
    said=$(tr -s ' \n' ' ' <"$folder/said")
    shift
    for pattern in "$@"; do
        [[ $said =~ $pattern ]] || { echo "$what: no $pattern in: $said"; failures=$((failures + 1)); }
    done
}
fits() { # WHAT ARCHITECTURES PATTERN...
    configure "$2" || { echo "$1: is refused"; failures=$((failures + 1)); }
    expect "$1" "${@:3}"
}
refused() { # WHAT ARCHITECTURES PATTERN...
    configure "$2" && { echo "$1: is not refused"; failures=$((failures + 1)); }
    expect "$1" "${@:3}"
}

knows gfx90a gfx942 gfx1100
fits "an older compiler's default" "" 'kernels for gfx90a;gfx942, code' '--offload-arch=gfx90a;--offload-arch=gfx942;-O3'
fits "one architecture" gfx942 'kernels for gfx942, code'
refused "gfx950 with an older compiler" gfx950 'clang for gfx950' 'clang-20 or later' "invalid target ID 'gfx950'"
refused "waves of 32" 'gfx942;gfx1100' 'no kernels for gfx1100;' 'allowed are gfx90a'
refused "both that cannot be" 'gfx1201;gfx90a;gfx1030' 'no kernels for gfx1201;gfx1030;'
refused "an older architecture" gfx908 'no kernels for gfx908;'
refused "no compiler" gfx90a:sramecc+ 'clang-19 or later'
knows gfx90a gfx942 gfx950
fits "a newer compiler's default" "" 'kernels for gfx90a;gfx942;gfx950, code' '--offload-arch=gfx942;--offload-arch=gfx950;-O3'
fits "less than it knows" gfx90a 'kernels for gfx90a, code'
fits "gfx950 alone" gfx950 'kernels for gfx950, code'
[ "$failures" -eq 0 ]
