# Version and checksum are set by packaging/recipes, see docs/releasing.md.
class Shedlock < Formula
  desc "Run a command under a named lock, so that it never runs twice at once"
  homepage "https://example.org/shedlock/"
  url "https://example.org/shedlock/shedlock-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    man7.install Dir["man/*.7"]
    generate_completions_from_executable(bin/"shedlock", "completions")
    pkgshare.install "packaging/examples"
    # The licences themselves are installed by Homebrew.
    prefix.install "packaging/THIRD-PARTY"
  end

  test do
    ENV["SHEDLOCK_BACKEND"] = "sqlite:#{testpath}/locks.db"
    ENV["SHEDLOCK_CONFIG"] = "/dev/null"
    assert_equal "shedlock #{version}", shell_output("#{bin}/shedlock --version").chomp
    assert_equal "once", shell_output("#{bin}/shedlock run --name job --at-most 1m -- echo once").chomp
    shell_output("#{bin}/shedlock acquire --name held --at-most 1m")
    assert_empty shell_output("#{bin}/shedlock run --name held --at-most 1m -E 75 -- echo twice", 75)
  end
end
