import PluginHost

/// What needs attention in plugins.
extension Agent {
    nonisolated func pluginAttention() -> [Attention] {
        let now = environment.time.wallSeconds()
        var list: [Attention] = []
        for plugin in plugins?.status() ?? [] where !plugin.usedBy.isEmpty {
            let subject = "plugin \(plugin.name)"
            if let refused = plugin.refused {
                let mend = refused.signature.map { PluginSeal.remedy(plugin.name, file: $0) } ?? "fix the file"
                let (kind, message, remedy) = if let version = plugin.version, plugin.failsOnlyTests {
                    (AttentionKind.pluginRefused, "its tests fail now, and its version, \(version), stays in use: \(refused.error)", "fix the tests or the plugin")
                } else if plugin.version != nil {
                    (.pluginRefused, "the changed version is refused and the version before serves: \(refused.error)", mend)
                } else if plugin.isOnlyShadow {
                    (.pluginRefused, "it is a shadow, and nothing is compared with it: \(refused.error)", "\(mend): nothing is held")
                } else {
                    (.pluginUnavailable, refused.error, "\(mend): what it should judge is held until then")
                }
                list.append(Attention(kind, subject, message, remedy: remedy))
            }
            for problem in plugin.parameterProblems {
                // A restarted agent has no earlier text of the file to fall back on.
                list.append(
                    Attention(
                        .nextStartFails, subject, "\(problem); its last text stays in force, and the next start would fail",
                        remedy: "fix that file, or restore it: it is read again by itself"))
            }
            for failing in plugin.failing {
                if let peer = failing.peer {
                    list.append(
                        Attention(
                            .breakerOpenForPeer, subject, since: now - Int64(failing.seconds),
                            "\(failing.usedBy) keeps failing for \(peer), and for nobody else, and is called for it only now and then: \(failing.error)",
                            remedy: "look at what that peer sends, and make the plugin accept or reject it; until then its documents are held"))
                    continue
                }
                list.append(
                    Attention(
                        .breakerOpen, subject, since: now - Int64(failing.seconds),
                        "\(failing.usedBy) keeps failing and is called only now and then: \(failing.error)",
                        remedy: "fix the plugin; until then documents that a filter, resolver or sync function should decide on are held, and events for an observer are lost"))
            }
            if plugin.state == .missing {
                list.append(
                    Attention(
                        .pluginFileGone, subject, "is used, but its file is gone; its last version stays in use",
                        remedy: "put \(plugin.name).lua back into the plugins folder, or remove the plugin from the configuration"))
            }
        }
        list += (plugins?.folderProblems() ?? []).map {
            Attention(.pluginRefused, "plugins folder", "\($0)", remedy: "nightjar plugin check says what can be used")
        }
        return list
    }
}
