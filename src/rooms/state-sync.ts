import type { MapSchema } from "@colyseus/schema";

/** Sets only the fields that differ, so that nothing else is transmitted. @returns whether there were any */
export const assignChanged = <T extends object>(target: T, values: Partial<T>): boolean => {
  let isChanged = false;
  for (const name of Object.keys(values) as (keyof T)[]) {
    const value = values[name];
    if (target[name] === value) continue;
    target[name] = value as T[keyof T];
    isChanged = true;
  }
  return isChanged;
};

/** Makes `map` hold exactly `rows`: existing entries are changed in place. */
export const syncMap = <V extends object>(
  map: MapSchema<V>,
  rows: ReadonlyMap<string, Partial<V>>,
  make: () => V,
): void => {
  for (const key of Array.from(map.keys())) if (!rows.has(key)) map.delete(key);
  for (const [key, row] of rows) {
    const held = map.get(key);
    if (held) assignChanged(held, row);
    else map.set(key, Object.assign(make(), row));
  }
};
