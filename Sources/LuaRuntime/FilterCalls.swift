import CLua

/// A document that a filter can judge.
public protocol LuaFilterable {
    /// The JSON text of one object; at most 64 MiB.
    var luaBody: [UInt8] { get }
    var luaFlags: LuaFlags { get }
    /// `doc._id` and `doc._rev`; called only if the filter reads them.
    var luaNames: (id: String, revision: String) { get }
}

extension LuaDocument: LuaFilterable {
    public var luaBody: [UInt8] { body }
    public var luaFlags: LuaFlags { isDeleted ? .deleted : [] }
    public var luaNames: (id: String, revision: String) { (id, revision) }
}

/// How documents are batched for one call into Lua.
private enum FilterBatch {
    static let documents = 32
    /// A body up to this size, in bytes, is copied, which costs less than passing a reference; a larger one is passed by reference, alone.
    static let copied = 512
}

extension LuaPluginState {
    /// Asks a filter hook about documents one after another, each with the full limits. The hot path: several documents go to Lua in one protected
    /// call, without an allocation for each.
    ///
    /// - Parameters:
    ///   - documents: not empty. The first one is always judged; how many others are depends on their sizes and on the time taken.
    ///   - answers: receives one answer for each document that was judged.
    /// - Throws: the failure of the first document without an answer.
    public func callFilter<Document: LuaFilterable>(
        _ hook: LuaHook, about documents: UnsafeBufferPointer<Document>, use: LuaUse, limits: LuaCallLimits = .filter,
        answers: inout [Bool]
    ) throws(LuaFailure) {
        guard let first = documents.first else { return }
        var budget = limits.budget
        let reference = reference(of: use)
        bridge.names = { documents[$0].luaNames }
        defer { bridge.names = nil }
        var status = Int32(NJ_OK)
        if first.luaBody.count > FilterBatch.copied {
            let flags = first.luaFlags
            first.luaBody.withUnsafeBytes { body in
                var document = Self.question(body.baseAddress, body.count, flags)
                var passed: UInt8 = 0
                var answered = 0
                status = nj_call_filters(state, hook.index, reference, &document, 1, &budget, &passed, &answered)
                if answered > 0 { answers.append(passed != 0) }
            }
        } else {
            let most = min(documents.count, FilterBatch.documents)
            withUnsafeTemporaryAllocation(of: nj_document.self, capacity: most) { questions in
                withUnsafeTemporaryAllocation(byteCount: most * (FilterBatch.copied + 1), alignment: 16) { room in
                    let count = Self.gather(documents, questions, room)
                    var answered = 0
                    // The answers are at the start of the buffer.
                    let passed = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    status = nj_call_filters(
                        state, hook.index, reference, questions.baseAddress, count, &budget, passed, &answered)
                    for place in 0..<answered { answers.append(room[place] != 0) }
                }
            }
        }
        try check(status, state)
    }

    /// Copies bodies into the buffer after the answers, up to the first one that is too large; returns their number.
    private static func gather<Document: LuaFilterable>(
        _ documents: UnsafeBufferPointer<Document>, _ questions: UnsafeMutableBufferPointer<nj_document>,
        _ room: UnsafeMutableRawBufferPointer
    ) -> Int {
        var end = questions.count
        for place in 0..<questions.count {
            let flags = documents[place].luaFlags
            let length = documents[place].luaBody.withUnsafeBytes { body in
                guard body.count <= FilterBatch.copied else { return -1 }
                UnsafeMutableRawBufferPointer(rebasing: room[end...]).copyMemory(from: body)
                return body.count
            }
            guard length >= 0 else { return place }
            questions.initializeElement(at: place, to: question(room.baseAddress.map { UnsafeRawPointer($0 + end) }, length, flags))
            end += length
        }
        return questions.count
    }

    @inline(__always)
    private static func question(_ body: UnsafeRawPointer?, _ length: Int, _ flags: LuaFlags) -> nj_document {
        nj_document(
            id: nj_bytes(), revision: nj_bytes(), body: nj_bytes(bytes: body, length: length), flags: flags.rawValue,
            is_deleted: flags.contains(.deleted), is_present: true)
    }

    /// Asks a filter hook about one document.
    public func callFilter(
        _ hook: LuaHook, document: LuaDocument, use: LuaUse, flags: LuaFlags = [], limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> Bool {
        var answers: [Bool] = []
        let question = FlaggedDocument(document: document, luaFlags: document.luaFlags.union(flags))
        do {
            try withUnsafePointer(to: question) { pointer in
                try callFilter(hook, about: UnsafeBufferPointer(start: pointer, count: 1), use: use, limits: limits, answers: &answers)
            }
        } catch let failure as LuaFailure {
            throw failure
        } catch {
            throw LuaFailure(kind: .error, message: "\(error)")
        }
        return answers.first ?? false
    }
}

private struct FlaggedDocument: LuaFilterable {
    let document: LuaDocument
    let luaFlags: LuaFlags
    var luaBody: [UInt8] { document.body }
    var luaNames: (id: String, revision: String) { document.luaNames }
}
