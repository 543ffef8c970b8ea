// Which rules match an event, in Laurel and in two other engines: conditions only, in this process, without
// limits and actions. Rates are for each second of CPU. `npm run bench:peers`.
import { randomUUID } from "node:crypto";
import { LogicEngine } from "json-logic-engine";
import { Engine } from "json-rules-engine";
import { RuleDocument } from "../src/domain/evaluation/language/document.ts";
import { compileRules } from "../src/domain/evaluation/running/compile.ts";
import { aPass, aPlan, aPlayerState } from "../test/support/rules/plan.ts";
import { randomOf } from "../test/support/seed.ts";
import { type Entrant, inTurns, optionsOf } from "./support/turns.ts";

const options = optionsOf({ rounds: "7", ms: "500" });
const SIZES = [10, 100, 1_000];
const EVENTS = 2_000;
const CHECKED = 200;
const EVENT_TYPES = 20;
const COUNTRIES = ["SE", "DE", "FR", "IT", "ES", "US", "BR", "IN", "JP", "NZ"];
const DEVICES = ["ios", "android", "web", "tv"];
const TAGS = ["staff", "vip", "beta", "trial"];

/** Every run has the same rules. */
const random = randomOf("peers");
const upTo = (max: number): number => random.between(0, max - 1);
const { pick } = random;

/**
 * A rule of five conditions: all of a score, any of two about the device and the player, none of two about
 * the player's tags and country.
 */
const makeRule = (_: unknown, n: number) => ({
  key: `rule-${n}`,
  eventType: `type.${n % EVENT_TYPES}`,
  score: upTo(120),
  devices: [pick(DEVICES), pick(DEVICES)],
  level: 1 + upTo(30),
  tag: pick(TAGS),
  country: pick(COUNTRIES),
});
type Rule = ReturnType<typeof makeRule>;

/** An event and its player as plain fields, which is what engines without a notion of either get. */
const makeFacts = () => ({
  type: `type.${upTo(EVENT_TYPES)}`,
  score: upTo(100),
  device: pick(DEVICES),
  level: 1 + upTo(30),
  tags: TAGS.filter(() => random.chance(0.25)),
  country: pick(COUNTRIES),
});
type Facts = ReturnType<typeof makeFacts>;

/** Keys of the rules that match the n-th event. */
type Match = (n: number) => string[] | Promise<string[]>;

const laurel = (rules: readonly Rule[], facts: readonly Facts[]): Match => {
  const published = rules.map(({ key, eventType, score, devices, level, tag, country }) => {
    const event = (path: string, op: string, value: unknown) => ({ type: "event_property", path, op, value });
    const player = (field: string, op: string, value: unknown) => ({
      type: "player_property",
      field,
      op,
      value,
    });
    const definition = RuleDocument.parse({
      key,
      name: key,
      triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
      conditions: {
        all: [
          event("score", "gte", score),
          { any: [event("device", "in", devices), player("level", "gte", level)] },
          { none: [player("tags", "contains", tag), player("country", "eq", country)] },
        ],
      },
      actions: [{ type: "grant_xp", amount: 1 }],
    });
    return { id: randomUUID(), key, version: 1, createdAt: new Date(0), definition };
  });
  const compiled = compileRules(published);
  const plan = aPlan();
  const turns = facts.map(({ type, level, tags, country, ...properties }) => {
    const player = aPlayerState({ level, tags, country });
    return aPass({ plan, player, event: { type, properties } }).turn;
  });
  return (n) => {
    const turn = turns[n % turns.length]!;
    const matched: string[] = [];
    for (const rule of compiled.candidates(turn.event)) if (rule.test(turn)) matched.push(rule.key);
    return matched;
  };
};

/** The others have no event types of their own: their rules are listed by type, as somebody who knows it would. */
const byType = <T>(rules: readonly Rule[], make: (rules: readonly Rule[]) => T): Map<string, T> =>
  new Map([...Map.groupBy(rules, ({ eventType }) => eventType)].map(([type, of]) => [type, make(of)]));

/** Compiles rules to JavaScript. */
const jsonLogic = (rules: readonly Rule[], facts: readonly Facts[]): Match => {
  const engine = new LogicEngine();
  const fact = (name: string) => ({ var: name });
  const compiled = byType(rules, (of) =>
    of.map(({ key, score, devices, level, tag, country }) => {
      const test = engine.build({
        and: [
          { ">=": [fact("score"), score] },
          { or: [{ in: [fact("device"), devices] }, { ">=": [fact("level"), level] }] },
          { "!": { or: [{ in: [tag, fact("tags")] }, { "===": [fact("country"), country] }] } },
        ],
      }) as (facts: Facts) => boolean;
      return { key, test };
    }),
  );
  return (n) => {
    const one = facts[n % facts.length]!;
    const matched: string[] = [];
    for (const { key, test } of compiled.get(one.type) ?? []) if (test(one)) matched.push(key);
    return matched;
  };
};

const jsonRules = (rules: readonly Rule[], facts: readonly Facts[]): Match => {
  const engines = byType(rules, (of) => {
    const engine = new Engine([], { allowUndefinedFacts: true });
    const is = (fact: string, operator: string, value: unknown) => ({ fact, operator, value });
    for (const { key, score, devices, level, tag, country } of of) {
      const any = [is("device", "in", devices), is("level", "greaterThanInclusive", level)];
      const not = { any: [is("tags", "contains", tag), is("country", "equal", country)] };
      const all = [is("score", "greaterThanInclusive", score), { any }, { not }];
      engine.addRule({ conditions: { all }, event: { type: key } });
    }
    return engine;
  });
  return async (n) => {
    const one = facts[n % facts.length]!;
    return (await engines.get(one.type)?.run(one))?.events.map(({ type }) => type) ?? [];
  };
};

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

const rateOf = async (match: Match, ms: number): Promise<number> => {
  const startMs = cpuMs();
  let [events, usedMs] = [0, 0];
  // The clock is read when the events have doubled: reading it takes longer than a few rules.
  for (let next = 16; usedMs < ms; next *= 2) {
    for (; events < next; events++) {
      const matched = match(events);
      if (!Array.isArray(matched)) await matched;
    }
    usedMs = cpuMs() - startMs;
  }
  return (1_000 * events) / usedMs;
};

const ENGINES = { laurel, "json-logic-engine by type": jsonLogic, "json-rules-engine by type": jsonRules };

for (const size of SIZES) {
  const rules = Array.from({ length: size }, makeRule);
  const facts = Array.from({ length: EVENTS }, makeFacts);
  const matches = Object.entries(ENGINES).map(([name, make]) => ({ name, match: make(rules, facts) }));
  for (let n = 0; n < CHECKED; n++) {
    const found = await Promise.all(matches.map(async ({ match }) => (await match(n)).toSorted().join()));
    if (new Set(found).size > 1) throw new Error(`event ${n} matches ${found.join(" | ")}`);
  }
  const entrants = matches.map(({ name, match }): Entrant => {
    const measure = async () => ({ "events/CPU s": await rateOf(match, Number(options.ms)) });
    return { name, measure };
  });
  await inTurns(`${size} rules`, entrants, { rounds: Number(options.rounds) });
}
