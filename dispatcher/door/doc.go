package door
