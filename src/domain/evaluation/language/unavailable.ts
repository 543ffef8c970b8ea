import type { Problem } from "./trees.ts";

/**
 * Names that the rule format reserves and this version does not implement. They are reported as such, with
 * their path, since "unknown key" would suggest a typing error. Names are removed here as they become
 * available.
 */
const TARGETS = ["lobbyMembers", "groupMembers"];
const ACTION_KEYS: ReadonlyMap<unknown, readonly string[]> = new Map([["emit_event", ["chatChannelKey"]]]);

type Fields = Record<string, unknown>;

const fieldsOf = (value: unknown): Fields =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Fields) : {};

const itemsOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Finds every use of unavailable names; `document` is unchecked input. */
export const unavailableProblems = (document: unknown): Problem[] => {
  const problems: Problem[] = [];
  const refuse = (path: PropertyKey[], what: string): void =>
    void problems.push({ path, message: `${what} is not available yet` });
  const refuseKeys = (fields: Fields, keys: readonly string[], path: PropertyKey[]): void => {
    for (const key of keys) if (Object.hasOwn(fields, key)) refuse([...path, key], key);
  };

  const rule = fieldsOf(document);
  itemsOf(rule["actions"]).forEach((action, i) => {
    const fields = fieldsOf(action);
    const { type } = fields;
    refuseKeys(fieldsOf(fields["target"]), TARGETS, ["actions", i, "target"]);
    refuseKeys(fields, ACTION_KEYS.get(type) ?? [], ["actions", i]);
    itemsOf(fields["channels"]).forEach((channel, c) => {
      if (channel === "chat") refuse(["actions", i, "channels", c], "the channel chat");
    });
  });
  return problems;
};
