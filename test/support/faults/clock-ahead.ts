/** To be imported before a process's own code: its clock is CLOCK_AHEAD_MS ahead. */
const aheadMs = Number(process.env["CLOCK_AHEAD_MS"]);
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...of: [] | [string | number | Date]) {
    super(of.length === 0 ? RealDate.now() + aheadMs : of[0]);
  }

  static override now(): number {
    return RealDate.now() + aheadMs;
  }
} as DateConstructor;
