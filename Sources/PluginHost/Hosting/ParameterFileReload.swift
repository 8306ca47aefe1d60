/// Files given as parameters are reloaded like plugin versions.
extension Reloader {
    func refreshFiles(_ record: PluginRecord) {
        let (version, uses) = record.read { ($0.inForce, $0.uses.filter { !$0.value.texts.isEmpty }) }
        guard let version else { return }
        for (number, use) in uses {
            guard let fresh = try? UsePreparation(
                version, hook: use.hook, params: use.params, usedBy: use.usedBy, files: core.files, previous: use.texts)
            else { continue }
            let changed = fresh.texts.filter { $0.value.digest != use.texts[$0.key]?.digest }.keys.sorted()
            let broken = fresh.fileProblems.filter { use.fileProblems[$0.key] != $0.value }
            let isCurrent = record.change { fields in
                guard fields.inForce?.serial == version.serial, fields.uses[number] != nil else { return false }
                fields.uses[number]?.texts = fresh.texts
                fields.uses[number]?.fileProblems = fresh.fileProblems
                if !changed.isEmpty {
                    fields.prepared[number] = fresh.prepared
                    fields.uses[number]?.breaker = record.newBreaker(use.hook)
                }
                return true
            }
            guard isCurrent else { continue }
            for name in changed { record.send(.parameterFileChanged(plugin: record.name, usedBy: use.usedBy, parameter: name)) }
            for (name, message) in broken.sorted(by: { $0.key < $1.key }) {
                record.send(.parameterFileRefused(plugin: record.name, usedBy: use.usedBy, parameter: name, message: message))
            }
            if !changed.isEmpty { use.versions.send(fresh.prepared.version) }
        }
    }
}
