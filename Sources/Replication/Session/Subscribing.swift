import BLIP
import Documents
import DocumentStore

/// A peer subscribes to our changes (passive side).
extension ReplicationSession {
    func handleSubChanges(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        guard case .passive = role else {
            throw MessageError(domain: "LiteCore", code: 501, message: "this side is active itself")
        }
        let properties = request.properties
        if properties[Property.versioning].map({ $0 != "rev-trees" }) ?? false {
            throw MessageError(
                domain: "LiteCore", code: 501, message: "this database has revision trees, not \(properties[Property.versioning] ?? "")")
        }
        var channels: [String]?
        if let filter = properties[Property.filter] { channels = try selectedChannels(filter, properties[Property.channels]) }
        var ids: [DocumentID]?
        if request.body.readableBytes > 0 {
            guard request.body.readableBytes <= limits.maximumChangeListBytes,
                case .object(let object)? = try? JSONValue(parsing: [UInt8](request.body.readableBytesView))
            else { throw .bad("the body of subChanges is a JSON object with docIDs") }
            if let wanted = object["docIDs"] {
                guard case .array(let items) = wanted else { throw .bad("docIDs is an array of strings") }
                guard items.count <= limits.maximumDocumentIDs else {
                    throw MessageError(
                        code: 413, message: "docIDs has \(items.count) ids, max_document_ids is \(limits.maximumDocumentIDs)")
                }
                ids = items.compactMap { if case .string(let text) = $0 { try? DocumentID(text) } else { nil } }
            }
        }
        // A one-shot subscription may be followed by another, as in Couchbase Lite: what it announced already is still sent.
        if let running = sync.push, running.isContinuous, !running.isFinished {
            throw MessageError(code: 409, message: "this collection has a subscription already")
        }
        sync.push?.end()
        sync.push?.isFinished = true
        let wantsFuture = isTrue(properties[Property.future])
        // Anything but a plain number starts from the beginning, as in Couchbase Lite's listener.
        let since = properties[Property.since].flatMap { UInt64($0) } ?? 0
        let isContinuous = isTrue(properties[Property.continuous])
        let activeOnly = isTrue(properties[Property.activeOnly])
        sync.peerPulls = true
        let feed = PushFeed(style: .changes, since: since, isContinuous: isContinuous, activeOnly: activeOnly, documentIDs: ids)
        sync.push = feed
        if let peer = channelPeer {
            startChannels(sync, feed, peer, channels: channels, wantsFuture: wantsFuture, request)
            return
        }
        guard wantsFuture else {
            reply(to: request.number)
            startPush(sync, feed)
            return
        }
        work {
            let collection = sync.collection
            if let last = try? await self.database.read({ try $0.lastSequence(collection) }) { feed.start(from: last) }
            guard !self.hasEnded, !feed.isFinished else { return }
            self.reply(to: request.number)
            self.startPush(sync, feed)
        }
    }

    func handleUnsubChanges(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        sync.push?.end()
        sync.push?.isFinished = true
        if !request.isNoReply { reply(to: request.number) }
    }
}
