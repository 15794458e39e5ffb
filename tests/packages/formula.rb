# Enough of Homebrew to load a formula, to let it install into a directory, and to run its test there:
#
#     ruby formula.rb FORMULA SHEDLOCK PREFIX
#
# `cargo install` puts SHEDLOCK in place. Prints what the formula says of itself, one per line.
require "fileutils"
require "open3"
require "pathname"

class Pathname
  def install(*files)
    mkpath
    files = files.flatten
    raise "nothing to install into #{self}" if files.empty?

    files.each { |file| FileUtils.cp_r(file.to_s, self) }
  end
end

class Formula
  class << self
    attr_reader :said, :check

    def say(key, value)
      (@said ||= {})[key] = value
    end

    %i[desc homepage url sha256 license].each { |key| define_method(key) { |value| say(key, value) } }

    def depends_on(what)
      say(:"depends on #{what.is_a?(Hash) ? what.keys.first : what}", what.is_a?(Hash) ? what.values.first : :run)
    end

    def test(&block)
      @check = block
    end
  end

  def prefix = Pathname(ARGV[2])
  def bin = prefix/"bin"
  def man1 = prefix/"share/man/man1"
  def man5 = prefix/"share/man/man5"
  def man7 = prefix/"share/man/man7"
  def pkgshare = prefix/"share/shedlock"
  def testpath = prefix/"test"
  def version = self.class.said[:url][/-(\d[\d.]*)\.tar\.gz\z/, 1]
  def std_cargo_args = ["--locked", "--root=#{prefix}", "--path=."]

  def system(*words)
    expected = ["cargo", "install", *std_cargo_args]
    raise "#{words} and not #{expected}" if words != expected

    bin.install(ARGV[1])
  end

  def generate_completions_from_executable(program, *words)
    places = { "bash" => "etc/bash_completion.d/shedlock", "zsh" => "share/zsh/site-functions/_shedlock",
               "fish" => "share/fish/vendor_completions.d/shedlock.fish" }
    places.each do |shell, place|
      (prefix/place).dirname.mkpath
      (prefix/place).write(shell_output([program, *words, shell].join(" ")))
    end
  end

  def shell_output(command, code = 0)
    output, status = Open3.capture2(command)
    raise "#{command} exits with #{status.exitstatus}" if status.exitstatus != code

    output
  end

  def assert_equal(expected, found)
    raise "#{found.inspect} and not #{expected.inspect}" if expected != found
  end

  def assert_empty(found) = assert_equal("", found)
end

load ARGV[0]
formula = Shedlock.new
formula.install
formula.testpath.mkpath
formula.instance_eval(&Shedlock.check)
Shedlock.said.each { |key, value| puts "#{key}: #{value}" }
