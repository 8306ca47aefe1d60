import BLIP
import Documents
import NIOCore

/// Blobs requested from the peer.
extension BLIPDialect {
    /// Asks the peer to prove that it holds a blob, by the digest over the nonce's length, the nonce and the blob.
    mutating func requestProof(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, nonce: [UInt8]) {
        var message = OutgoingRequest(profile: Profile.proveAttachment, body: ByteBuffer(bytes: nonce))
        message.properties.append(Property.digest, transfer.digest.text)
        message.properties.append(Property.docID, document.text)
        send(message, slot, .proof(transfer))
    }

    /// - Parameter offset: everything before it is already here. A peer that does not know the property sends the whole blob, and does not confirm
    ///   the offset.
    mutating func requestBlob(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, compresses: Bool, offset: UInt64) {
        var message = OutgoingRequest(profile: Profile.getAttachment)
        if mode == .collections { message.properties.append(Property.collection, String(slot)) }
        message.properties.append(Property.digest, transfer.digest.text)
        message.properties.append(Property.docID, document.text)
        if compresses { message.properties.append(Property.compress, "true") }
        if offset > 0 { message.properties.append(Property.offset, String(offset)) }
        wire?.sent(message)
        guard let token = blip.send(message, streamsReply: true) else { return }
        pending[token] = .blob(transfer, offset: offset)
        transfers[transfer] = token
    }

    /// This many bytes of a blob are on disk: the peer may send more.
    mutating func consumed(_ transfer: BlobTransfer, bytes: Int) {
        if let token = transfers[transfer] { blip.consumed(token, bytes: bytes) }
    }

    /// The rest of a blob is not wanted.
    mutating func abandon(_ transfer: BlobTransfer) {
        guard let token = transfers.removeValue(forKey: transfer) else { return }
        pending[token] = nil
        blip.abandon(token)
    }

    /// All of a blob has arrived and been consumed.
    mutating func forget(_ transfer: BlobTransfer) { transfers[transfer] = nil }
}
