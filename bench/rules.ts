// How fast rules are evaluated, against other engines and with rules that have nothing to do with an event.
// See README.md.
import { writeFile } from "node:fs/promises";
import os from "node:os";
import { parseArgs } from "node:util";
import { type PublishedRule, compileRules } from "../src/domain/evaluation/running/compile.ts";
import {
  type Contestant,
  createRandom,
  EVENT_TYPES,
  type Facts,
  jsonLogicByTypeOf,
  jsonRulesByTypeOf,
  jsonRulesOf,
  laurelOf,
  makeFacts,
  makeSpecs,
  publishedOf,
  type Spec,
} from "./support/rule-sets.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    json: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 3 : 7));
const SIZES = [10, 100, 1_000];
const SAMPLE_MS = options.quick ? 150 : 500;
const WARM_MS = options.quick ? 150 : 400;
const EVENTS = 2_000;
const CHECKED_EVENTS = 200;
const UNRELATED = 990;
const RELATED = 10;
const SEED = 20_261_121;

/** A contestant with its events made ready. */
type Ready = { name: string; match(place: number): string[] | Promise<string[]> };

const ready = <E>({ name, prepare, match }: Contestant<E>, facts: readonly Facts[]): Ready => {
  const events = facts.map(prepare);
  return { name, match: (place) => match(events[place % events.length]!) };
};

/** Wrong is void: every contestant has to find the rules that ours finds. */
const check = async (ours: Ready, others: readonly Ready[]): Promise<number> => {
  let matches = 0;
  for (let i = 0; i < CHECKED_EVENTS; i++) {
    const expected = [...(await ours.match(i))].toSorted().join();
    matches += expected === "" ? 0 : expected.split(",").length;
    for (const other of others) {
      const found = [...(await other.match(i))].toSorted().join();
      if (found !== expected) throw new Error(`${other.name} differs from ours on event ${i}`);
    }
  }
  return matches / CHECKED_EVENTS;
};

/** CPU time of this process, all of its threads, in ms: other programs do not count. */
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

/** Events for each second of CPU. */
const rateOf = async ({ match }: Ready, ms: number): Promise<number> => {
  let events = 0;
  const startMs = cpuMs();
  let usedMs = 0;
  // The clock is read every 16 events: reading it costs more than a few rules.
  while (usedMs < ms) {
    for (let i = 0; i < 16; i++) {
      const matched = match(events++);
      if (!Array.isArray(matched)) await matched;
    }
    usedMs = cpuMs() - startMs;
  }
  return (1_000 * events) / usedMs;
};

type Rates = Map<string, number[]>;

/** Contestants take turns, forth in odd rounds and back in even ones. */
const race = async (contestants: readonly Ready[]): Promise<Rates> => {
  const rates: Rates = new Map(contestants.map(({ name }) => [name, []]));
  for (const contestant of contestants) await rateOf(contestant, WARM_MS);
  for (let round = 1; round <= ROUNDS; round++) {
    for (const contestant of round % 2 === 1 ? contestants : contestants.toReversed())
      rates.get(contestant.name)!.push(await rateOf(contestant, SAMPLE_MS));
  }
  return rates;
};

const ratios = (rates: Rates, name: string, of: string) =>
  spread(rates.get(name)!.map((rate, i) => rate / rates.get(of)![i]!));

type Line = { size: number; rates: Rates; matches: number };

const compare = async (size: number): Promise<Line> => {
  const random = createRandom(SEED + size);
  const specs = makeSpecs(random, size);
  const facts = makeFacts(random, EVENTS);
  const ours = ready(laurelOf(specs.map((spec) => publishedOf(spec))), facts);
  const others = [
    ready(jsonLogicByTypeOf(specs), facts),
    ready(jsonRulesByTypeOf(specs), facts),
    ready(jsonRulesOf(specs), facts),
  ];
  const matches = await check(ours, others);
  return { size, rates: await race([ours, ...others]), matches };
};

/** The same events with 10 rules, and with 990 more that they cannot match. */
const unrelated = async (): Promise<Rates> => {
  const random = createRandom(SEED);
  const own: readonly [number, number] = [0, 1];
  const related = makeSpecs(random, RELATED, own).map((spec) => publishedOf(spec));
  const facts = makeFacts(random, EVENTS, own);
  const otherTypes = makeSpecs(random, UNRELATED, [1, EVENT_TYPES]).map((spec) => publishedOf(spec));
  const sameType = makeSpecs(random, UNRELATED, own).map((spec, i) =>
    publishedOf(
      { ...spec, key: `shop-${i}` },
      { all: [{ type: "event_property", path: "shop", op: "eq", value: `shop ${i}` }, ...scoreOf(spec)] },
    ),
  );
  const of = (name: string, rules: readonly PublishedRule[]) => ready(laurelOf(rules, name), facts);
  const alone = of("10 rules", related);
  const withOthers = of("and 990 of other types", [...related, ...otherTypes]);
  const withSame = of("and 990 of the type, ruled out by a property", [...related, ...sameType]);
  await check(alone, [withOthers, withSame]);
  return race([alone, withOthers, withSame]);
};

const scoreOf = ({ score }: Spec) => [{ type: "event_property", path: "score", op: "gte", value: score }];

/** Milliseconds of CPU to compile a project's rules. */
const compileMs = (size: number) => {
  const rules = makeSpecs(createRandom(SEED), size).map((spec) => publishedOf(spec));
  const once = (): number => {
    const startMs = cpuMs();
    const { size: compiled } = compileRules(rules);
    if (compiled !== size) throw new Error("not all rules were compiled");
    return cpuMs() - startMs;
  };
  const cold = once();
  return { cold, warm: spread(Array.from({ length: 20 }, once)) };
};

type Verdict = { name: string; value: ReturnType<typeof spread>; goal?: string; isMet?: boolean };

const judge = (lines: readonly Line[], alone: Rates): Verdict[] => {
  const found: Verdict[] = lines.flatMap(({ size, rates }) =>
    [...rates.keys()].slice(1).map((name) => ({
      name: `laurel / ${name}, ${size} rules`,
      value: ratios(rates, "laurel", name),
    })),
  );
  for (const verdict of found) {
    if (!verdict.name.startsWith("laurel / json-rules-engine") || !verdict.name.endsWith(", 1000 rules"))
      continue;
    Object.assign(verdict, { goal: "20", isMet: verdict.value.median >= 20 });
  }
  const cost = (name: string): Verdict => {
    const value = ratios(alone, "10 rules", name);
    return {
      name: `time of an event: 10 rules ${name} / 10 rules`,
      value,
      goal: "1.2 at most",
      isMet: value.median <= 1.2,
    };
  };
  return [...found, ...[...alone.keys()].slice(1).map(cost)];
};

const verdictText = ({ goal, isMet }: Verdict): string =>
  goal === undefined ? "" : `${isMet === true ? "met" : "MISSED"}: ${goal}`;

const main = async (): Promise<void> => {
  const compiled = compileMs(1_000);
  const lines: Line[] = [];
  for (const size of SIZES) lines.push(await compare(size));
  const alone = await unrelated();
  const names = [...lines[0]!.rates.keys()];
  const cells = (rates: Rates, name: string) => spreadText(spread(rates.get(name)!));
  console.log(
    table(
      [
        "events per CPU second",
        ...lines.map(({ size, matches }) => `${size} rules, ${rounded(matches)} match`),
      ],
      names.map((name) => [name, ...lines.map(({ rates }) => cells(rates, name))]),
    ),
  );
  console.log(
    `\n${table(
      ["rules", "events per CPU second"],
      [...alone.keys()].map((name) => [name, cells(alone, name)]),
    )}`,
  );
  console.log(
    `\ncompiling 1,000 rules: ${rounded(compiled.cold)} ms cold, ${spreadText(compiled.warm)} ms warm\n`,
  );
  const verdicts = judge(lines, alone);
  console.log(
    table(
      ["ratio", "of the same round", "goal"],
      verdicts.map((v) => [v.name, spreadText(v.value), verdictText(v)]),
    ),
  );
  const load = os.loadavg()[0] ?? Number.NaN;
  console.error(`\nload average at the end: ${rounded(load)} on ${os.cpus().length} cores`);
  const text = JSON.stringify({ bench: "rules", rounds: ROUNDS, compiled, verdicts });
  if (options.json !== undefined) await writeFile(options.json, text);
};

await main();
