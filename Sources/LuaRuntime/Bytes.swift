import CLua

/// Calls `body` with the bytes of a text; native strings are not copied.
@inline(__always)
func withBytes<Result>(_ text: String, _ body: (nj_bytes) -> Result) -> Result {
    if let result = text.utf8.withContiguousStorageIfAvailable({ body(nj_bytes(bytes: $0.baseAddress, length: $0.count)) }) {
        return result
    }
    return Array(text.utf8).withUnsafeBytes { body(nj_bytes(bytes: $0.baseAddress, length: $0.count)) }
}

/// The same for a text that may be absent.
func withBytes<Result>(ifPresent text: String?, _ body: (nj_bytes) -> Result) -> Result {
    guard let text else { return body(nj_bytes()) }
    return withBytes(text, body)
}

@inline(__always)
func withBytes<Result>(_ bytes: [UInt8], _ body: (nj_bytes) -> Result) -> Result {
    bytes.withUnsafeBytes { body(nj_bytes(bytes: $0.baseAddress, length: $0.count)) }
}

/// Calls `body` with a document in the C side's form.
@inline(__always)
func withDocument<Result>(_ document: borrowing LuaDocument, _ body: (nj_document) -> Result) -> Result {
    let isDeleted = document.isDeleted
    return withBytes(document.id) { id in
        withBytes(document.revision) { revision in
            withBytes(document.body) { bytes in
                body(nj_document(id: id, revision: revision, body: bytes, flags: 0, is_deleted: isDeleted, is_present: true))
            }
        }
    }
}

func withDocument<Result>(_ document: LuaDocument?, _ body: (nj_document) -> Result) -> Result {
    guard let document else { return body(nj_document()) }
    return withDocument(document, body)
}

extension nj_bytes {
    var array: [UInt8] { Array(UnsafeRawBufferPointer(start: bytes, count: length)) }
}

extension LuaCallLimits {
    @inline(__always)
    var budget: nj_budget {
        // Clamped so that sums on the C side cannot overflow: at most an hour, and at least a minimal amount.
        nj_budget(
            cpu_nanoseconds: Int64(max(1, min(cpuMilliseconds, 3_600_000))) * 1_000_000,
            instructions: Int64(max(1, min(instructions, 1 << 50))))
    }
}
