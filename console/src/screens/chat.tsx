import { Page } from "../ui/page.tsx";
export const Chat = () => <Page title="Chat">{null}</Page>;
