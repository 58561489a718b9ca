# A recipe for Spack 1.0 and later. Nobody has built with it yet: tests parse it, and compare its options and dependencies with those of
# the build.
#
#     spack repo add share/spack/spack_repo/tutti && spack install tutti
#
# It builds the source tree that it lies in.
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *

SOURCE = pathlib.Path(__file__).resolve().parents[6]


class Tutti(CMakePackage):
    """Collective communication for distributed training: allreduce, broadcast, alltoall and others, whose algorithms are plans that are
    proven before they run, and which never hang when a rank fails."""

    git = SOURCE.as_uri()

    license("Apache-2.0")

    version("main", branch="main")
    version("0.2.0", tag="v0.2.0")

    variant("fabric", default=True, description="RDMA network cards through libfabric")
    variant("pmix", default=False, description="Exchange through PMIx")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("openssl@1.1.1:")
    depends_on("hwloc")
    depends_on("jansson")
    depends_on("expat")
    # Tutti loads these two, and jansson, when it needs them.
    depends_on("libfabric", when="+fabric")
    depends_on("pmix", when="+pmix")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("TUTTI_TESTS", "OFF"),
            self.define("TUTTI_WERROR", False),
            self.define("TUTTI_CCACHE", False),
        ]
        # CMake would otherwise take headers of the system where a variant is off.
        if self.spec.satisfies("~fabric"):
            args.append(self.define("OFI_INCLUDE_DIR", "OFF"))
        if self.spec.satisfies("~pmix"):
            args.append(self.define("PMIX_INCLUDE_DIR", "OFF"))
        return args

    def setup_run_environment(self, env):
        for name, variant in (("jansson", ""), ("libfabric", "+fabric"), ("pmix", "+pmix")):
            if self.spec.satisfies(variant):
                env.prepend_path("LD_LIBRARY_PATH", self.spec[name].prefix.lib)
