// Asks many random questions of analytics, and DuckDB the same over the exported events
// (test/data/verify-analytics.test.ts).
// VERIFY_QUESTIONS and VERIFY_EVENTS say how many, SEED makes the same choices again.
process.env.VERIFY_QUESTIONS ??= "500";
process.env.VERIFY_EVENTS ??= "20000";
process.argv.splice(2, process.argv.length, "test/data/verify-analytics.test.ts");
await import("./test.mjs");
