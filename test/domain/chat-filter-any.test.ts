import assert from "node:assert/strict";
import fc from "fast-check";
import { moderate, screenText } from "../../src/domain/social/chat/moderation/moderate.ts";
import { findLinks, mask, screenWords } from "../../src/domain/social/chat/moderation/built-in-words.ts";
import { type ListAction, SCREEN_STEPS_MAX } from "../../src/domain/social/chat/moderation/word-filter.ts";
import { contextOf, filterOf } from "../support/chat/talk.ts";
import { cases } from "../support/properties.ts";

const SIGNS = Array.from("fuckshit.as@1!4$ \u200b\u0301ａ🍆\ud800ﷺhttp://co");
const TEXT = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.array(fc.constantFrom(...SIGNS), { maxLength: 200 }).map((all) => all.join("")),
);

describe("the filter of chat, for any text", () => {
  const filter = filterOf(
    { action: "MASK", words: ["ass", "assa", "fu", "a🍆"], isWord: false },
    { action: "ALLOW", words: ["fuchs", "co"] },
  );

  it("gives a verdict, and a masked text of as many characters that differs where words are", () => {
    const property = fc.property(TEXT, (text) => {
      for (const links of ["BLOCK", "ALLOW_LIST"] as const) moderate(contextOf(filter, { links }), text);
      const verdict = moderate(contextOf(filter, { links: "ALLOW" }), text);
      assert.ok(!("error" in verdict));
      const [before, after] = [Array.from(text), Array.from(verdict.content)];
      assert.equal(after.length, before.length);
      const { matches } = screenWords(filter, "MASK", text);
      assert.equal(verdict.outcome, matches.length > 0 ? "MASKED" : "VISIBLE");
      let at = 0;
      for (const [index, character] of before.entries()) {
        const isIn = matches.some(({ start, end }) => start < at + character.length && at < end);
        assert.equal(after[index], isIn ? "*" : character);
        at += character.length;
      }
    });
    fc.assert(property, { numRuns: cases(500) });
  });

  it("never masks an allowed word for what is inside of it", () => {
    const property = fc.property(
      fc.constantFrom("fuchs", "FUCHS", "fuch\u200bs", "ｆuchs"),
      TEXT,
      (word, text) => {
        const whole = `${text} ${word}`;
        const { matches } = screenWords(filter, "OFF", whole);
        const inside = matches.filter(({ start }) => start > text.length);
        assert.deepEqual(inside, []);
      },
    );
    fc.assert(property, { numRuns: cases(200) });
  });

  it("finds the same in a text that was screened ahead, also when the lists have changed since", () => {
    const property = fc.property(TEXT, fc.boolean(), (text, isChanged) => {
      const context = contextOf(filter, { links: "ALLOW" });
      const other = filterOf({ action: "MASK", words: ["a", "s", "f"] });
      const ahead = screenText(isChanged ? other : filter, "MASK", text);
      assert.deepEqual(moderate(context, text, ahead), moderate(context, text));
    });
    fc.assert(property, { numRuns: cases(200) });
  });

  it("screens nothing again that was screened ahead, whatever else was screened since", () => {
    let lookups = 0;
    class CountedMap<K, V> extends Map<K, V> {
      override get(key: K): V | undefined {
        lookups += 1;
        return super.get(key);
      }
    }
    const counted = { ...filter, edges: new CountedMap(filter.edges) };
    const context = contextOf(counted, { links: "ALLOW" });
    const texts = Array.from({ length: 1_500 }, (_, at) => `an ass ${at}`);
    const ahead = texts.map((text) => screenText(counted, "MASK", text));
    assert.ok(lookups > texts.length);
    lookups = 0;
    for (const [at, text] of texts.entries())
      assert.equal((moderate(context, text, ahead[at]) as { outcome: string }).outcome, "MASKED");
    assert.equal(lookups, 0);
    // What was made of another text, or for another setting, does not count.
    for (const setting of ["OFF", "BLOCK"] as const)
      moderate(contextOf(counted, { links: "ALLOW", profanity: setting }), texts[0]!, ahead[0]);
    moderate(context, texts[0]!, ahead[1]);
    assert.ok(lookups > 0);
  });

  it("takes no more than twice the steps for a text of twice the length", () => {
    const hostile = filterOf(
      { action: "MASK", words: Array.from({ length: 32 }, (_, at) => "ab".repeat(at + 1)), isWord: false },
      { action: "BLOCK", words: ["aaaaaaab", "zalgo", "f u c k"] },
    );
    const units = [
      "a",
      "ab",
      "aab",
      "a b ",
      "f.u.c.k.",
      "@$1!",
      "ﷺ",
      "́",
      "<((((",
      "http://a.co/",
      "a@b.",
      " dot co",
    ];
    for (const unit of units) {
      const stepsOf = (length: number) => screenWords(hostile, "MASK", unit.repeat(length)).steps;
      const [once, twice] = [stepsOf(2_000), stepsOf(4_000)];
      // Less is looked up at the end of a text, where no long word fits any more.
      assert.ok(twice <= 2 * once + 64 * 65, `${unit}: ${once}, then ${twice}`);
      assert.ok(findLinks(unit.repeat(1_000)).length <= 1_000 * unit.length);
    }
  });

  it("bounds what a text costs, and makes of one that is dearer what the strongest list would", () => {
    const words = Array.from({ length: 63 }, (_, at) => "ab".repeat(32).slice(0, at + 2)).flatMap((word) => [
      ...["", "b"].map((first) => (first + word).slice(0, 64)),
      ...Array.from({ length: 20 }, (_, at) => word.slice(0, at + 1) + word.slice(at)),
    ]);
    const lists = (...actions: ListAction[]) =>
      filterOf(...actions.flatMap((action) => [true, false].map((isWord) => ({ action, words, isWord }))));
    const unread = { flags: ["word:@unread"], isShadowed: false };
    const texts = ["ab", "aabb", "a b ", "4b", "\ufdfa"].map((unit) => unit.repeat(2_000 / unit.length));
    for (const actions of [["MASK", "HOLD", "ALLOW"], ["MASK"], ["HOLD", "BLOCK"], ["ALLOW"]] as const) {
      const dear = lists(...actions);
      assert.ok(screenWords(dear, "MASK", texts[0]!).steps < 2 * SCREEN_STEPS_MAX);
    }
    const [text = ""] = texts;
    const verdictOf = (...actions: ListAction[]) => moderate(contextOf(lists(...actions)), text);
    assert.deepEqual(verdictOf("ALLOW", "MASK"), {
      outcome: "MASKED",
      content: "*".repeat(2_000),
      ...unread,
    });
    assert.equal((verdictOf("MASK", "HOLD", "ALLOW") as { outcome: string }).outcome, "HELD");
    assert.ok("error" in verdictOf("MASK", "HOLD", "BLOCK", "ALLOW"));
    assert.equal((verdictOf("ALLOW") as { outcome: string }).outcome, "VISIBLE");
  });

  it("keeps what a mask leaves of a text", () => {
    assert.equal(mask("a🍆b", [{ start: 1, end: 3 }]), "a*b");
    assert.equal(
      mask("abc", [
        { start: 0, end: 2 },
        { start: 1, end: 3 },
      ]),
      "***",
    );
  });
});
