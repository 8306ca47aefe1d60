import Glibc
import TestSupport
import Testing

/// What fuzzing kept: inputs that reach every part of a target, and those that once found something.
@Suite("Kept inputs of the fuzz targets", .serialized)
struct ReplayTests {
    @Test("hold", arguments: FuzzTarget.all)
    func replay(_ target: FuzzTarget) async throws {
        let folder = Self.vectors + target.name
        let files = Self.files(in: folder)
        #expect(!files.isEmpty, "\(folder) has no inputs")
        for file in files {
            let bytes = try #require(Self.bytes(of: folder + "/" + file), "\(file) cannot be read")
            do {
                try await offThread { try target.run(bytes) }
            } catch let finding as FuzzFinding {
                Issue.record("\(target.name)/\(file): \(finding)")
            } catch {
                // Refused, as it should be.
            }
        }
    }

    @Test("are named after a target")
    func everyFolderIsATarget() {
        #expect(Self.files(in: Self.vectors).allSatisfy { FuzzTarget.named($0) != nil })
    }

    /// What is kept of a target.
    static func inputs(of target: FuzzTarget) throws -> [[UInt8]] {
        let folder = vectors + target.name
        return try files(in: folder).map { try #require(bytes(of: folder + "/" + $0), "\($0) cannot be read") }
    }

    private static let vectors: String = {
        // Tests/FuzzingTests/Replaying/ReplayTests.swift
        let parts = #filePath.split(separator: "/").dropLast(3)
        return "/" + parts.joined(separator: "/") + "/Vectors/fuzz/"
    }()

    private static func files(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names.sorted()
    }

    private static func bytes(of path: String) -> [UInt8]? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return Array(bytes[..<count])
    }
}

extension FuzzTarget: CustomTestStringConvertible {
    var testDescription: String { name }
}
