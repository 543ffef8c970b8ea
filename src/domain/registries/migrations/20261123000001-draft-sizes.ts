import { Migration } from "@mikro-orm/migrations";

/** The bytes of a rule's draft, computed once when it is written, as those of versions are. */
export class Migration20261123000001 extends Migration {
  override up(): void {
    this.addSql(`
      alter table rules
        add column draft_bytes int generated always as (octet_length(draft::text)) stored`);
  }

  override down(): void {
    this.addSql(`alter table rules drop column draft_bytes`);
  }
}
