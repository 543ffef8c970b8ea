import { createHash } from "node:crypto";
import type { Json } from "../../../src/domain/kernel/events/events.ts";

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** A step that somebody confirms. */
export const manual = (key: string, more: Json = {}) => ({ key, name: key, kind: "MANUAL", ...more });

/** A step that a code does; codes are given as they are hashed: lower case, trimmed. */
export const coded = (key: string, codes: readonly string[], more: Json = {}) => ({
  key,
  name: key,
  kind: "CODE",
  codeHashes: codes.map(sha256),
  ...more,
});

/** A step with a pool of codes. */
export const pooled = (key: string, more: Json = {}) => ({
  key,
  name: key,
  kind: "CODE",
  perPlayerCodes: true,
  ...more,
});

/** A quiz of two questions: the right answers are `RIGHT`. */
export const quiz = (key: string, more: Json = {}) => ({
  key,
  name: key,
  kind: "QUIZ",
  questions: [
    { key: "capital", prompt: "The capital of France?", options: ["Rome", "Paris", "Oslo"], correct: [1] },
    { key: "primes", prompt: "Which are primes?", options: ["2", "4", "7"], correct: [0, 2] },
  ],
  passScore: 100,
  ...more,
});

export const RIGHT = { capital: [1], primes: [2, 0] };
export const HALF = { capital: [1], primes: [0] };
