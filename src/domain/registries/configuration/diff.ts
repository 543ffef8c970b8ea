import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { type ConfigDocument, REPORTS, keyOf, sectionOf, SECTIONS, SINGLE } from "./document.ts";

/** Reports alone are deleted: nothing of players hangs on them, and nothing else is archived of them. */
const CONFIG_ACTIONS = ["CREATE", "UPDATE", "ARCHIVE", "DELETE"] as const;

/** An import's change to one definition. */
export const ConfigChange = z.object({
  section: z.string().meta({ example: "badges" }),
  key: z.string(),
  action: z.enum(CONFIG_ACTIONS).meta({ description: "DELETE: of analyticsReports" }),
  fields: z.array(z.string()).meta({ description: "The fields that differ" }),
});
export type ConfigChange = z.output<typeof ConfigChange>;

/**
 * Computes the changes that turn a project in state `current` into what a document describes. Items that the
 * document does not name are archived, and reports deleted, only with `prune`. Computed in slices.
 * @param current the result of `exportConfig`
 */
export const diffConfig = async (
  current: ConfigDocument,
  { document, prune }: { document: ConfigDocument; prune: boolean },
): Promise<ConfigChange[]> => {
  const changes: ConfigChange[] = [];
  for (const name of SINGLE) {
    const wanted = document[name];
    const now = current[name];
    if (wanted === undefined) continue;
    const fields = typeof wanted === "object" ? differing(wanted, now as Json) : [name];
    const isSame = typeof wanted === "object" ? fields.length === 0 : wanted === now;
    if (!isSame) changes.push({ section: name, key: name, action: "UPDATE", fields });
  }
  for (const section of SECTIONS) {
    const wanted = sectionOf(document, section);
    if (wanted)
      changes.push(...(await diffSection(section, { wanted, now: sectionOf(current, section)!, prune })));
  }
  return changes;
};

/**
 * Returns the fields of `wanted` that differ in `now`; a partial object is compared only in the fields that
 * it names.
 */
const differing = (wanted: Json, now: Json): string[] =>
  Object.keys(wanted).filter((field) => {
    const value = wanted[field];
    if (value === undefined) return false;
    const isPart = value !== null && typeof value === "object" && !Array.isArray(value);
    const known = now[field];
    const full = isPart && known !== null && typeof known === "object" ? { ...known, ...value } : value;
    return !isDeepStrictEqual(full, known);
  });

type Sections = { wanted: readonly Json[]; now: readonly Json[]; prune: boolean };

const diffSection = async (section: string, { wanted, now, prune }: Sections): Promise<ConfigChange[]> => {
  const known = new Map(now.map((item) => [keyOf(item), item]));
  const changes: ConfigChange[] = [];
  await mapInSlices(wanted, (item) => {
    const key = keyOf(item);
    const before = known.get(key);
    const fields = before ? itemFields(item, before) : [];
    if (!before) changes.push({ section, key, action: "CREATE", fields });
    else if (fields.length > 0) changes.push({ section, key, action: "UPDATE", fields });
  });
  if (!prune) return changes;
  const named = new Set(wanted.map(keyOf));
  for (const key of known.keys())
    if (!named.has(key)) changes.push({ section, key, action: goneBy(section), fields: [] });
  return changes;
};

const goneBy = (section: string): ConfigChange["action"] => (section === REPORTS ? "DELETE" : "ARCHIVE");

/** Stored JSON has no undefined; parsed documents may have. */
const plain = (value: Json): Json => JSON.parse(JSON.stringify(value)) as Json;

/** Returns the fields in which an item of a document differs from what the project has. */
export const itemFields = (wanted: Json, before: Json): string[] => {
  const right = flat(before);
  // A quest or an adventure without a status stays as it is.
  const left: Json = { status: right["status"], ...flat(wanted) };
  if (wanted["leaderboard"]) left["period"] = zonedAs(left["period"] as Json, right["period"] as Json);
  // Schedules of rules have no zone.
  if (wanted["report"] && left["schedule"] && right["schedule"])
    left["schedule"] = zonedAs(left["schedule"] as Json, right["schedule"] as Json);
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].filter(
    (field) => !isDeepStrictEqual(left[field], right[field]),
  );
};

/**
 * The calendar of a board, and the zone of a report's schedule, are chosen when that is made: a period or a
 * schedule that says nothing of them keeps them.
 */
const zonedAs = (wanted: Json, before: Json): Json => {
  const kept = Object.entries(before).filter(([field]) => CALENDAR_FIELDS.has(field));
  return { ...Object.fromEntries(kept), ...wanted };
};
const CALENDAR_FIELDS: ReadonlySet<string> = new Set(["timezone", "weekStartsOn", "dayStartsAtMinutes"]);

/** `backfill` is an instruction and not a property: it makes no difference afterwards. */
const flat = (item: Json): Json => {
  const { rule, leaderboard, status, ...own } = item as { rule?: Json; leaderboard?: Json; status?: unknown };
  const { backfill: _order, ...board } = leaderboard ?? {};
  return plain({ ...own, ...rule, ...board, ...(status === undefined ? {} : { status }) });
};
