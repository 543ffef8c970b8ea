import type { Spender } from "../event-accounts.ts";
import type { Test } from "../conditions/condition.ts";
import type { InputReader } from "../player-state.ts";
import { readerOf } from "./inputs.ts";
import { type CompiledSegment, orderSegments } from "./segment.ts";

/** A DYNAMIC segment in its place. */
export type DynamicSegment = {
  key: string;
  test: Test;
  /** What a look takes at most, in steps, beside texts and lists. */
  steps: number;
  spender: Spender;
  isTimed: boolean;
  /** Places of what it reads, in the index's `readers`. */
  inputs: readonly number[];
  /** Place of its own membership among the inputs, where another segment reads it. */
  ownInput: number | undefined;
};

/** The DYNAMIC segments of a project, each after those that it reads, and everything that they read. */
export type SegmentIndex = {
  dynamic: readonly DynamicSegment[];
  readers: readonly InputReader[];
};

/** Built once for a config version. */
export const indexSegments = (segments: readonly CompiledSegment[]): SegmentIndex => {
  const dynamic = segments.flatMap(({ id, definition: { key }, test, steps, inputs }) =>
    test ? [{ id, key, test, steps, ...inputs }] : [],
  );
  const order = orderSegments(dynamic);
  // A ring cannot be saved; should there be one, each is evaluated in the order of keys.
  const ordered = "ring" in order ? dynamic : order.ordered;
  const names = [...new Set(ordered.flatMap((segment) => segment.names))];
  const placeOf = new Map(names.map((name, place) => [name, place]));
  return {
    dynamic: ordered.map((segment) => ({
      key: segment.key,
      test: segment.test,
      steps: segment.steps,
      spender: { kind: "segment", id: segment.id, key: segment.key },
      isTimed: segment.isTimed,
      inputs: segment.names.map((name) => placeOf.get(name)!),
      ownInput: placeOf.get(`segment:${segment.key}`),
    })),
    readers: names.map(readerOf),
  };
};
