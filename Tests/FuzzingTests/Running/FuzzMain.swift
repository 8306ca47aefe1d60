import Glibc

/// `nightjar-fuzz list` names the targets, `nightjar-fuzz TARGET [OPTION…] [FOLDER…]` runs one under libFuzzer, whose `main` calls
/// these two functions, with its options.
enum FuzzMain {
    // Set before libFuzzer begins with the inputs.
    nonisolated(unsafe) fileprivate static var target: FuzzTarget?

    /// Takes the target's name from the arguments and puts its bounds there.
    fileprivate static func begin(with arguments: [String]) -> [String] {
        guard arguments.count > 1, arguments[1] != "list" else {
            for target in FuzzTarget.all { print(target.name) }
            exit(0)
        }
        // libFuzzer starts itself again to merge corpora, with the options that it got from here.
        if let inherited = getenv("NIGHTJAR_FUZZ_TARGET"), let found = FuzzTarget.named(String(cString: inherited)) {
            target = found
            return arguments
        }
        guard let found = FuzzTarget.named(arguments[1]) else {
            print("there is no target \(arguments[1]): nightjar-fuzz list")
            exit(64)
        }
        setenv("NIGHTJAR_FUZZ_TARGET", found.name, 1)
        target = found
        return [arguments[0], "-max_len=\(found.longestInput)", "-malloc_limit_mb=\(found.memory)"] + arguments.dropFirst(2)
    }
}

@_cdecl("LLVMFuzzerInitialize")
public func initializeFuzzer(
    _ count: UnsafeMutablePointer<Int32>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>
) -> Int32 {
    let given = (0..<Int(count.pointee)).compactMap { arguments.pointee?[$0].map { String(cString: $0) } }
    let options = FuzzMain.begin(with: given)
    // Kept for the life of the process.
    let list = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: options.count + 1)
    for (index, option) in options.enumerated() { (list + index).initialize(to: strdup(option)) }
    (list + options.count).initialize(to: nil)
    arguments.pointee = list
    count.pointee = Int32(options.count)
    return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    let input = Array(UnsafeBufferPointer(start: bytes, count: count))
    do { try FuzzMain.target?.run(input) } catch let finding as FuzzFinding {
        // libFuzzer keeps the input.
        fatalError("finding: \(finding)")
    } catch {}
    return 0
}
