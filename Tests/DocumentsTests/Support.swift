import Glibc
import Testing

@testable import Documents

/// A new seed, or the one in NIGHTJAR_SEED to repeat a failure; printed either way.
func makeSeed(_ test: String) -> UInt64 {
    let given = getenv("NIGHTJAR_SEED").flatMap { UInt64(String(cString: $0)) }
    let seed = given ?? UInt64.random(in: .min ... .max)
    print("\(test): NIGHTJAR_SEED=\(seed)")
    return seed
}

func readFile(_ path: String) throws -> [UInt8] {
    guard let file = fopen(path, "rb") else { throw TestFileError(path: path) }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = fread(&chunk, 1, chunk.count, file)
        if count == 0 { return bytes }
        bytes += chunk[..<count]
    }
}

struct TestFileError: Error { let path: String }

func replicationVectors(_ file: String = #filePath) throws -> JSONValue {
    let folder = file.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/")
    return try JSONValue(parsing: readFile(folder + "/Vectors/replication-vectors.json"))
}

/// Runs `body` over a copy that has no byte to spare, so that an address sanitiser sees a read beyond it.
func withExactCopy<Result>(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { copy.deallocate() }
    copy.copyBytes(from: bytes)
    return try body(UnsafeRawBufferPointer(copy))
}

func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
