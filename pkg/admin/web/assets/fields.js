// Rules that are checked while somebody types; the server checks them again.
const rules = {
  length: (name) => name.length >= 1 && name.length <= 40,
  letters: (name) => /^[a-z0-9._-]*$/.test(name),
  solid: (name) => /[a-z0-9]/.test(name),
};

for (const input of document.querySelectorAll("[data-name-rules]")) {
  const list = document.querySelector(input.dataset.nameRules);
  const update = () => {
    for (const item of list.querySelectorAll("[data-rule]")) {
      const good = rules[item.dataset.rule](input.value);
      item.classList.toggle("good", good && input.value !== "");
      item.classList.toggle("wrong", !good && input.value !== "");
    }
  };
  input.addEventListener("input", update);
  update();
}

for (const input of document.querySelectorAll("[data-length]")) {
  const hint = document.querySelector("[data-length-hint]");
  const usual = hint.textContent;
  input.addEventListener("input", () => {
    const missing = Number(input.dataset.length) - input.value.length;
    hint.textContent = input.value === "" ? usual : missing > 0 ? `${missing} more characters` : `${input.value.length} characters, good`;
  });
}
