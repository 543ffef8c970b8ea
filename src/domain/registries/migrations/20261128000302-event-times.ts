import { Migration } from "@mikro-orm/migrations";

/**
 * Events of a stretch of time are found without reading all that there are: most lie in the order of their
 * times, so that an index of blocks is enough.
 */
export class Migration20261128000302 extends Migration {
  override up(): void {
    this.addSql(`create index if not exists tracked_events_time_idx
      on tracked_events using brin (occurred_at) with (autosummarize = on)`);
  }

  override down(): void {
    this.addSql(`drop index tracked_events_time_idx`);
  }
}
