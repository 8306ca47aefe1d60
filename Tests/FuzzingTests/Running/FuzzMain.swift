import Glibc

/// `nightjar-fuzz list` names the targets, `nightjar-fuzz TARGET [OPTION…] [FOLDER…]` runs one under libFuzzer, with its options.
@main
struct FuzzMain {
    // Set before libFuzzer begins to call.
    nonisolated(unsafe) private static var target: FuzzTarget?

    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        guard let name = arguments.first, name != "list" else {
            for target in FuzzTarget.all { print(target.name) }
            return
        }
        guard let found = FuzzTarget.named(name) else {
            print("there is no target \(name): nightjar-fuzz list")
            exit(64)
        }
        target = found
        let options = ["nightjar-fuzz", "-max_len=\(found.longestInput)", "-malloc_limit_mb=\(found.memory)"] + arguments.dropFirst()
        var pointers: [UnsafeMutablePointer<CChar>?] = options.map { strdup($0) } + [nil]
        let status = pointers.withUnsafeMutableBufferPointer { list -> Int32 in
            var count = Int32(options.count)
            var start = list.baseAddress
            return runLibFuzzer(&count, &start) { bytes, count in
                FuzzMain.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
                return 0
            }
        }
        exit(status)
    }

    private static func run(_ bytes: [UInt8]) {
        do { try target?.run(bytes) } catch let finding as FuzzFinding {
            // libFuzzer keeps the input.
            fatalError("finding: \(finding)")
        } catch {}
    }
}

/// libFuzzer's own entry, for programs with a `main` of their own.
@_silgen_name("LLVMFuzzerRunDriver")
private func runLibFuzzer(
    _ count: UnsafeMutablePointer<Int32>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32
