import Documents
import DocumentStore
import Interfaces

/// A document that a filter kept back, or that the peer refused.
struct KeptBack: Sendable {
    enum Cause: Sendable {
        /// The filter rejected it.
        case rejected
        /// The filter could not decide.
        case failed(PolicyFailure)
        /// The peer refused it, or it cannot be sent completely.
        case refused(ReplicationError)
    }

    var document: OutgoingDocument
    var cause: Cause

    var failure: PolicyFailure? { if case .failed(let failure) = cause { failure } else { nil } }
    var refusal: ReplicationError? { if case .refused(let error) = cause { error } else { nil } }
}

/// A page whose visible documents are being judged by the filter.
struct JudgedPage {
    let page: PushPage
    /// The filter changed in the meantime: its verdicts do not count, and it is asked again.
    var isStale = false
}

/// How a push filter's verdicts divide a page.
struct Judgement {
    /// A document for a pulling peer about which the filter could not decide.
    struct Undecided {
        var document: OutgoingDocument
        var stall: FeedReader.Stall
        /// The position of the feed right before it.
        var position: FeedPosition
    }

    /// The feed stalls, because as many documents as possible are held already.
    struct Stall {
        var at: Undecided
        /// The document and everything read after it.
        var notExamined: ArraySlice<OutgoingDocument>
    }

    private(set) var passed: [OutgoingDocument] = []
    private(set) var kept: [KeptBack] = []
    private(set) var undecided: [Undecided] = []
    private(set) var stall: Stall?

    /// - Parameters:
    ///   - verdicts: one for each visible document of the page, in order.
    ///   - version: the version of the filter that gave them.
    ///   - style: determines the meaning of a failure. A push puts the document on a list; for a peer that pulls, the document is held, since the
    ///     peer's checkpoint must not pass it.
    ///   - room: how many more documents of the feed may be held. The feed stalls at the next one.
    init(_ page: PushPage, _ verdicts: [FilterVerdict], by version: String, _ style: PushStyle, room: Int) {
        var next = verdicts.makeIterator()
        var position = page.from
        for (index, var document) in page.documents.enumerated() {
            document.judgedBy = version
            switch document.visibility == .visible ? next.next() ?? .reject : .pass {
            case .pass: passed.append(document)
            case .replace(let body):
                document.replaceBody(body)
                passed.append(document)
            case .reject: kept.append(KeptBack(document: document, cause: .rejected))
            case .failed(let failure) where style == .announce:
                let found = Undecided(
                    document: document, stall: .init(id: document.id, version: document.version, failure: failure),
                    position: position ?? FeedPosition(max(1, document.sequence) - 1))
                if position != nil, undecided.count >= room {
                    stall = Stall(at: found, notExamined: page.documents[index...])
                    return
                }
                undecided.append(found)
            case .failed(let failure): kept.append(KeptBack(document: document, cause: .failed(failure)))
            }
            position = position?.behind(document)
        }
    }
}

extension ReplicationCounts {
    mutating func add(keptBack failure: PolicyFailure?) {
        if failure == nil { rejected += 1 } else { held += 1 }
    }
}
