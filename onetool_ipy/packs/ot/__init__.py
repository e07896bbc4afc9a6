"""placeholder"""
def functions(desk):
    return []
