/* dlsym: names that are not ours go to libc by a jump, so that libc sees the caller's return
 * address and RTLD_NEXT means what the caller meant. */
#if defined(__x86_64__)
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $24, %rsp
    .cfi_adjust_cfa_offset 24
    movq $0, 8(%rsp)
    leaq 8(%rsp), %rdx
    call ts_dlsym_decide
    movq 8(%rsp), %rcx
    addq $24, %rsp
    .cfi_adjust_cfa_offset -24
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jz 1f
    jmp *%rax
1:  movq %rcx, %rax
    ret
    .cfi_endproc
    .size dlsym, . - dlsym
#elif defined(__aarch64__)
    .text
    .globl dlsym
    .type dlsym, %function
dlsym:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-48]!
    .cfi_adjust_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    stp x0, x1, [sp, #16]
    str xzr, [sp, #32]
    add x2, sp, #32
    bl ts_dlsym_decide
    mov x16, x0
    ldr x3, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #48
    .cfi_adjust_cfa_offset -48
    .cfi_restore 29
    .cfi_restore 30
    cbz x16, 1f
    br x16
1:  mov x0, x3
    ret
    .cfi_endproc
    .size dlsym, . - dlsym
#else
#error "no dlsym stub for this machine"
#endif
    .section .note.GNU-stack, "", %progbits
