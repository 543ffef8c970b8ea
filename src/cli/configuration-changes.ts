import { z } from "zod";

/** A change that an import makes, as the API shows it. */
export const Change = z.object({
  section: z.string(),
  key: z.string(),
  action: z.enum(["CREATE", "UPDATE", "ARCHIVE", "DELETE"]),
  fields: z.array(z.string()),
});
export type Change = z.output<typeof Change>;

const SIGNS = { CREATE: "+", UPDATE: "~", ARCHIVE: "-", DELETE: "-" } as const;

/** Settings, the time zone and the level curve have no key of their own. */
const nameOf = ({ section, key }: Change): string => (section === key ? section : `${section} ${key}`);

const lineOf = (change: Change): string => {
  const { action, fields } = change;
  const what = fields.length === 0 ? "" : `: ${fields.join(", ")}`;
  return `${SIGNS[action]} ${nameOf(change)}${what}`;
};

const countOf = (changes: readonly Change[]): string => {
  const count = (wanted: Change["action"]) => changes.filter(({ action }) => action === wanted).length;
  const deleted = count("DELETE");
  const counts = `${count("CREATE")} added, ${count("UPDATE")} changed, ${count("ARCHIVE")} archived`;
  return deleted === 0 ? counts : `${counts}, ${deleted} deleted`;
};

/** Lists changes for people: a line for each, with the fields that differ, and their number. */
export const changesText = (changes: readonly Change[]): string =>
  changes.length === 0 ? "no difference\n" : `${[...changes.map(lineOf), countOf(changes)].join("\n")}\n`;
