import { Migration } from "@mikro-orm/migrations";

/** How often a mail server has asked to come back: what the operator had to mend does not count. */
export class Migration20261129000102 extends Migration {
  override up(): void {
    this.addSql(`alter table email_outbox add refusals int not null default 0`);
  }

  override down(): void {
    this.addSql(`alter table email_outbox drop refusals`);
  }
}
