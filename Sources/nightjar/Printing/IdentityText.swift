import Agent
import Documents
import TLS

/// Identities in the key store, as commands print them.
enum IdentityText {
    /// `nightjar identity list --json` and `show --json`.
    static func json(_ label: IdentityLabel, _ identity: Identity, now: Int64) -> JSONValue {
        let leaf = identity.leaf
        let names = leaf.alternativeNames
        return JSONOutput.object([
            "label": .string(label.text), "subject": .string(leaf.subject), "issuer": .string(leaf.issuer),
            "names": JSONOutput.object([
                "dns": texts(names.dns), "ip": texts(names.ip), "uri": texts(names.uri), "email": texts(names.email),
            ]),
            "serial": .string(leaf.serialNumber), "not_before": .string(Timestamp.format(leaf.notBefore)),
            "expires_at": .string(Timestamp.format(leaf.notAfter)), "sha256": .string(leaf.sha256), "pin": .string(leaf.pin),
            "key": .string("\(leaf.key)"), "self_signed": .bool(leaf.isSelfSigned),
            "chain": texts(identity.chain.dropFirst().map(\.subject)),
            "warning": JSONOutput.text(identity.expiryWarning(of: label, now: now)), "error": .null,
        ])
    }

    /// An entry of the list, including one that cannot be read.
    static func json(_ entry: KeyStore.Entry, now: Int64) -> JSONValue {
        switch entry.identity {
        case .success(let identity): json(entry.label, identity, now: now)
        case .failure(let error): JSONOutput.object(["label": .string(entry.label.text), "error": .string("\(error)")])
        }
    }

    /// The readable identities, one line each; empty if there are none.
    static func table(_ entries: [KeyStore.Entry]) -> String {
        var table = TextTable(["LABEL", "SUBJECT", "EXPIRES", "KEY", "SHA-256"])
        for entry in entries {
            guard case .success(let identity) = entry.identity else { continue }
            let leaf = identity.leaf
            table.add([entry.label.text, leaf.subject, Timestamp.format(leaf.notAfter), "\(leaf.key)", leaf.sha256])
        }
        return table.isEmpty ? "" : table.text
    }

    /// Lines for a terminal.
    static func text(_ label: IdentityLabel, _ identity: Identity, now: Int64) -> String {
        let leaf = identity.leaf
        let names = leaf.alternativeNames
        var rows = [("label", label.text), ("subject", leaf.subject)]
        rows.append(("issuer", leaf.isSelfSigned ? "itself" : leaf.issuer))
        let all = names.dns + names.ip + names.uri + names.email
        rows.append(("names", all.isEmpty ? "none" : all.joined(separator: ", ")))
        rows.append(("valid", "\(Timestamp.format(leaf.notBefore)) to \(Timestamp.format(leaf.notAfter))"))
        rows.append(("key", "\(leaf.key)"))
        rows.append(("serial", leaf.serialNumber))
        rows.append(("SHA-256", leaf.sha256))
        rows.append(("pin", leaf.pin))
        for certificate in identity.chain.dropFirst() { rows.append(("chain", certificate.subject)) }
        if let warning = identity.expiryWarning(of: label, now: now) { rows.append(("warning", warning)) }
        return rows.map { name, value in
            name + String(repeating: " ", count: 9 - name.utf8.count) + TextTable.printable(value) + "\n"
        }.joined()
    }

    private static func texts(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }
}
