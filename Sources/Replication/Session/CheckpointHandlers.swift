import BLIP
import Documents
import DocumentStore

/// Checkpoints of peers, which we keep for them: bytes in, bytes out.
extension ReplicationSession {
    func handleGetCheckpoint(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let id = try checkpointID(request.properties[Property.client])
        work {
            do {
                let stored = try await self.database.read { try $0.checkpoint(.peer, id: id, collection: nil) }
                guard let stored else {
                    self.refuse(request.number, 404, "no checkpoint is stored under this id")
                    return
                }
                self.reply(
                    to: request.number,
                    OutgoingReply(properties: [Property.rev: stored.revision], body: .init(bytes: stored.body)))
            } catch { self.storeFailed(request.number, error) }
        }
    }

    func handleSetCheckpoint(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let id = try checkpointID(request.properties[Property.client])
        guard request.body.readableBytes <= limits.maximumCheckpointBytes else {
            throw MessageError(
                code: 413,
                message: "the checkpoint has \(request.body.readableBytes) bytes, max_checkpoint_bytes is \(limits.maximumCheckpointBytes)")
        }
        let body = [UInt8](request.body.readableBytesView)
        guard (try? body.withUnsafeBytes({ bytes throws(JSONError) in try JSONScanner.scanDocument(bytes) })) != nil else {
            throw .bad("a checkpoint is a JSON object")
        }
        // LiteCore always sends the property, empty for "none yet".
        let expected = request.properties[Property.rev].flatMap { $0.isEmpty ? nil : $0 }
        let cost = body.count + limits.bufferedMessageOverhead
        bufferedBytes += cost
        work {
            defer { self.bufferedBytes -= cost }
            do {
                let revision = try await self.database.write {
                    try $0.setCheckpoint(.peer, id: id, collection: nil, body: body, expectedRevision: expected)
                }
                self.reply(to: request.number, OutgoingReply(properties: [Property.rev: revision]))
            } catch StoreError.checkpointConflict {
                self.refuse(request.number, 409, "the checkpoint was changed meanwhile")
            } catch { self.storeFailed(request.number, error) }
        }
    }

    func handleGetCollections(_ request: IncomingRequest) throws(MessageError) {
        guard isPassive else { throw .bad("getCollections goes to the passive side") }
        guard mode == .unknown else { throw MessageError(domain: "BLIP", code: 400, message: "getCollections must be the first message") }
        guard request.body.readableBytes <= limits.maximumChangeListBytes,
            case .object(let object)? = try? JSONValue(parsing: [UInt8](request.body.readableBytesView)),
            case .array(let idValues)? = object["checkpoint_ids"], case .array(let nameValues)? = object["collections"],
            idValues.count == nameValues.count, !nameValues.isEmpty
        else {
            throw MessageError(
                domain: "BLIP", code: 400, message: "getCollections needs checkpoint_ids and collections, arrays of the same length")
        }
        guard nameValues.count <= limits.maximumCollections else {
            throw MessageError(
                code: 413, message: "getCollections names \(nameValues.count) collections, max_collections is \(limits.maximumCollections)")
        }
        var ids: [String] = []
        var found: [Collection?] = []
        var seen: Set<CollectionName> = []
        for (idValue, nameValue) in zip(idValues, nameValues) {
            guard case .string(let id) = idValue, case .string(let nameText) = nameValue else {
                throw MessageError(domain: "BLIP", code: 400, message: "checkpoint ids and collection names are strings")
            }
            ids.append(try checkpointID(id))
            guard let name = try? CollectionName(parsing: nameText) else {
                found.append(nil)
                continue
            }
            guard seen.insert(name).inserted else {
                throw MessageError(domain: "BLIP", code: 400, message: "collection \(name) is named twice")
            }
            found.append(mayUse(name) ? database.collection(name) : nil)
        }
        mode = .collections
        // One unknown collection and the peer stops; until then nothing of the others is served.
        if !found.contains(where: { $0 == nil }) {
            collections = found.enumerated().compactMap { index, collection in
                collection.map { makePassiveSync(index, $0, wireIndex: index) }
            }
        }
        work { [ids, found] in
            do {
                let checkpoints = try await self.database.read { transaction in
                    try ids.map { try transaction.checkpoint(.peer, id: $0, collection: nil) }
                }
                var body: [UInt8] = [UInt8(ascii: "[")]
                for (index, collection) in found.enumerated() {
                    if index > 0 { body.append(UInt8(ascii: ",")) }
                    if collection == nil {
                        body.append(contentsOf: "null".utf8)
                    } else if let stored = checkpoints[index] {
                        body.append(contentsOf: Self.withToken(stored))
                    } else {
                        body.append(contentsOf: "{}".utf8)
                    }
                }
                body.append(UInt8(ascii: "]"))
                self.reply(to: request.number, OutgoingReply(body: .init(bytes: body)))
            } catch { self.storeFailed(request.number, error) }
        }
    }

    /// The stored body with its token under `rev`, every other byte as it came.
    private static func withToken(_ stored: StoredCheckpoint) -> [UInt8] {
        var body = stored.body
        while let last = body.last, last != UInt8(ascii: "}") { body.removeLast() }
        guard body.popLast() != nil else { return Array("{\"rev\":\"\(stored.revision)\"}".utf8) }
        let isEmpty = !body.contains(UInt8(ascii: ":"))
        body.append(contentsOf: "\(isEmpty ? "" : ",")\"rev\":\"\(stored.revision)\"}".utf8)
        return body
    }

    private func checkpointID(_ text: String?) throws(MessageError) -> String {
        guard let text, !text.isEmpty else {
            throw MessageError(domain: "BLIP", code: 400, message: "a checkpoint message needs the property client")
        }
        guard text.utf8.count <= limits.maximumCheckpointIDBytes else {
            throw MessageError(
                code: 400,
                message: "the checkpoint id has \(text.utf8.count) bytes, max_checkpoint_id_bytes is \(limits.maximumCheckpointIDBytes)")
        }
        return text
    }

    /// The store could not answer: 503 is the one status that every client survives and retries.
    func storeFailed(_ number: UInt64?, _ error: any Error) {
        logger.error("\(error)")
        refuse(number, 503, "the database cannot answer now")
    }
}
