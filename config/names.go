package config

// TypeSettings lists the settings of a type, as engine.toml spells them: a dot for
// each level of tables, and the tables by priority and by failure code as one.
func TypeSettings() []string {
	return typeSettings("", (&Type{}).fields())
}

func typeSettings(at string, fields []field) (names []string) {
	for _, f := range fields {
		switch {
		case f.key == "" || at == "" && f.key == "exec": // which is no setting of the type but its worker
		case f.table != nil && f.each == "":
			below, _ := f.table("")
			names = append(names, typeSettings(at+f.key+".", below)...)
		default:
			names = append(names, at+f.key)
		}
	}
	return names
}
