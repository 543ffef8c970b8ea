import { currencyKind } from "../../../src/domain/economy/currencies/kind.ts";
import { createDefinition } from "../../../src/domain/economy/definitions/definitions.ts";
import { DomainError } from "../../../src/domain/kernel/errors.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../../src/domain/rules/rules.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import type { Crashing } from "../domain/crashing.ts";
import type { Domain } from "../domain/domain.ts";

const goal = [{ kind: "EVENT", eventTypes: ["goal"] }];
const positive = { all: [{ type: "event_property", path: "points", op: "gt", value: 0 }] };
const RULES = [
  {
    key: "goals",
    name: "Goals",
    triggers: goal,
    conditions: positive,
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
    ],
  },
  {
    key: "bonus",
    name: "Bonus",
    triggers: goal,
    conditions: positive,
    limits: { perPlayer: [{ max: 2, window: "LIFETIME" }] },
    actions: [{ type: "grant_xp", amount: 10 }],
  },
];

/**
 * A project in which a `goal` with positive points gives them as XP and 3 coins, and the first two goals of a
 * player 10 XP more; with an XP board, and its players.
 */
export const anEconomy = async (
  domain: Domain,
  { players, coinsMax }: { players: readonly string[]; coinsMax: number },
): Promise<string> => {
  const projectId = await domain.addProject();
  const coins = currencyKind.schema.parse({ key: "coins", name: "Coins", maxBalance: coinsMax });
  const made = { definition: coins, createdBy: "test" };
  await domain.transact((work) => createDefinition(work, projectId, currencyKind, made));
  await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
  for (const document of RULES) {
    const rule = RuleDocument.parse(document);
    await domain.transact((work) => createRule(work, projectId, rule, "test"));
    await domain.transact((work) => publishRule(work, projectId, rule.key, { publishedBy: "test" }));
  }
  for (const name of players) await domain.addPlayer(projectId, name);
  return projectId;
};

/**
 * Does one thing in a transaction, which first dies at a statement.
 * @returns false when it was refused with a CONFLICT
 */
export const surviveCrash = async (
  { crashing, domain }: { crashing: Crashing; domain: Domain },
  { crash, isAfter }: { crash: number; isAfter: boolean },
  run: (work: Work) => Promise<unknown>,
): Promise<boolean> => {
  const once = () => domain.transact(run);
  try {
    if (await crashing.crashAt(crash, isAfter, once)) await once();
    return true;
  } catch (error) {
    if (error instanceof DomainError && error.code === "CONFLICT") return false;
    throw error;
  }
};
