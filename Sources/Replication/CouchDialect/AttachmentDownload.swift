import Digests
import Encodings
import Environment
import Interfaces
import NIOCore

/// The download of one attachment. If the connection breaks, the data received is kept, and only the rest is requested.
struct AttachmentDownload: Sendable {
    /// Contains the revision, whose attachments never change, so the rest of one answer fits the beginning of another.
    var path: String
    /// According to the document, if it says so.
    var length: UInt64?
    /// The MD5 of the bytes as transmitted, if the document contains it.
    var md5: [UInt8]?
    /// The progress of an earlier connection.
    var progress: DownloadProgress?
    /// Accounts for requests that the peer has yet to answer.
    var owed = OwedRequests()
    /// Called with the number of bytes received on the wire, including repeated ones.
    var received: @Sendable (Int) -> Void = { _ in }
    /// Discards everything taken so far.
    var restart: @Sendable () async throws -> Void
    /// Takes the next piece; `total` is the number of bytes including it.
    var take: @Sendable (_ piece: ByteBuffer, _ total: UInt64) async throws -> Void

    /// - Returns: the number of bytes received.
    func run(_ peer: any HTTPPeer, _ time: any TimeSource) async throws -> UInt64 {
        let progress = progress ?? DownloadProgress(length: length, md5: md5)
        var failures = 0
        var mark = progress.count
        while true {
            var cut: ReplicationError?
            do { try await ask(peer, progress, time) } catch is DownloadProgress.Changed {
                try await begin(progress)
                mark = 0
                cut = ReplicationError(domain: .http, code: 502, message: "GET \(path.prefix(200)): the attachment is different each time it is requested")
            } catch let error as TemporarilyUnavailable { cut = error.error } catch let error as ReplicationError where error.domain == .network {
                // If nothing has arrived there is nothing to resume; if everything has, nothing to request.
                guard progress.count > 0 else { throw error }
                if !progress.isWhole { cut = error }
            }
            guard let cut = cut ?? progress.shortness else {
                if !progress.isDamaged { return progress.count }
                failures += 1
                guard progress.isJoined, failures <= CouchBounds.resumptions else { throw damaged }
                try await begin(progress)
                mark = 0
                continue
            }
            if progress.count >= mark + CouchBounds.resumptionBytes { (failures, mark) = (0, progress.count) }
            failures += 1
            let pause = cut.retryAfterSeconds ?? CouchBounds.resumptionPauseSeconds << (failures - 1)
            guard failures <= CouchBounds.resumptions, pause <= CouchBounds.longestPauseSeconds else { throw cut }
            try await time.sleep(seconds: pause)
        }
    }

    private func begin(_ progress: DownloadProgress) async throws {
        progress.begin()
        try await restart()
    }

    private var damaged: ReplicationError {
        // Another attempt would yield the same, and other documents should not wait for it.
        ReplicationError(domain: .http, code: 422, message: "GET \(path.prefix(200)): what came does not have the MD5 that the document names")
    }

    private func ask(_ peer: any HTTPPeer, _ progress: DownloadProgress, _ time: any TimeSource) async throws {
        let start = progress.count
        var request = PeerRequest("GET", path)
        request.patience = CouchBounds.patienceMilliseconds
        if start > 0 {
            request.headers.append(("Range", "bytes=\(start)-"))
            // A server on which the attachment has changed sends all of it.
            if let tag = progress.tag { request.headers.append(("If-Range", tag)) }
        }
        progress.open()
        let answer = try await owed.during(request, time) { request in
            try await peer.download(request) { head, piece in
                received(piece.readableBytes)
                if try progress.begins(head, asked: start) { try await restart() }
                guard let new = progress.advance(piece) else { return }
                try await take(new, progress.count)
            }
        }
        // It was interrupted after its last byte.
        if start > 0, answer.status == 416, answer.header("content-range") == "bytes */\(start)" { return progress.end(at: start) }
        guard answer.isGood else {
            let error = ReplicationError(answer, to: "GET \(path)")
            if start > 0, Self.isTemporarilyUnavailable(answer.status) { throw TemporarilyUnavailable(error: error) }
            throw error
        }
        if try progress.begins(answer, asked: start) { try await restart() }
    }

    /// The rest exists, but is not available at the moment.
    private struct TemporarilyUnavailable: Error {
        var error: ReplicationError
    }

    /// The peer, or a gateway in front of it, is overloaded.
    private static func isTemporarilyUnavailable(_ status: Int) -> Bool { [429, 502, 503, 504].contains(status) }
}
